# What `nix flake check` runs, each check a derivation of its own that sees only what it needs.
{ buildRoot, roots, python, go, site, pyz }:
let
  # The parts of the repository named, and the folders above them.
  tree = parts: builtins.path {
    path = ../..;
    name = "checked-tree";
    filter = path: _:
      let
        relative = builtins.substring (builtins.stringLength (toString ../..) + 1) (-1) path;
        below = folder: name: builtins.substring 0 (builtins.stringLength folder + 1) name == folder + "/";
      in
      builtins.any (part: relative == part || below part relative || below relative part) parts
      && builtins.match ".*(__pycache__|_pb2[.]pyi?)" path == null;
  };
  code = [ "python" "tests/unit" "tests/data" "tests/lint" "tests/conftest.py" "tests/harness/limits.py" "pyproject.toml" "VERSION" ];
  everything = [ "nixos-tests" "tests" "pkgs" "modules" "kernel" ];

  check = name: more: argv: checkWith { } name more argv;
  checkWith = checkIn roots.checks;
  checkIn = root: variables: name: more: argv: buildRoot.runIn root ({
    name = "check-${name}";
    command = [ "${python.workstation}/bin/python3.13" "${./run.py}" ] ++ argv;
    tree = tree (code ++ more);
    generated = python.api;
    inherit (python) workstation;
  } // variables);

  # Two checks of about the same length, for two processors: these folders, and all others.
  heavy = [ "fuzz" "provision" "talosctl" ];
  pageTests = [ "tests/unit/networkd/test_docs.py" "tests/unit/fetch/test_makefile.py" "tests/unit/talosctl/test_docs.py" ];
  folders = builtins.attrNames (removeAttrs (builtins.readDir ../../tests/unit) [ "conftest.py" ]);
  pytest = [ "python3.13" "-m" "pytest" "--durations=60" "--durations-min=1" ];
  unit = name: folders: check name
    [ "tests/bench/plots.py" "tests/bench/timeline.py" "tests/run" "tests/harness" "modules/default.nix" "modules/platforms.nix" "modules/rootfs/contents.toml" "modules/rootfs/files" "nixos-tests/driver" "docs/examples" "pkgs/checks/import_daemons.py" "pkgs/fetch" "pkgs/roots.toml" "pkgs/locks" "pkgs/cves" "pkgs/dist" "kernel/config" "kernel/hardening" "modules/sbom" ]
    (pytest ++ map (test: "--ignore=${test}") pageTests ++ map (folder: "tests/unit/${folder}") folders);
in
{
  lint = check "lint" everything [ "ruff" "check" ];
  format = check "format" everything [ "ruff" "format" "--check" ];
  daemons = buildRoot.runIn roots.checks {
    name = "check-daemons";
    command = [ "${python.workstation}/bin/python3.13" "${./import_daemons.py}" ];
    packages = builtins.attrValues python.packages;
    wheels = python.wheels.image;
    contents = ../../modules/rootfs/contents.toml;
    inherit (python) workstation;
  };
  layers = check "layers" [ "docs/architecture.md" ] [ "python3.13" "tests/lint/layers.py" ];
  grants = check "grants" [ ] [ "python3.13" "tests/lint/grants.py" "--check" ];
  references = check "references" [ "docs/reference" "docs/examples" ] [ "python3.13" "tests/lint/references.py" "--check" ];
  names = check "names" [ "docs" "kernel" "modules" "nixos-tests" "pkgs" "tests" "CONTRIBUTING.md" "README.md" "SECURITY.md" "Makefile" ] [ "python3.13" "tests/lint/names.py" ];
  words = check "words" [ "docs" "kernel" "modules" "nixos-tests" "pkgs" "tests" "CHANGELOG.md" "CONTRIBUTING.md" "README.md" "Makefile" ] [ "python3.13" "tests/lint/words.py" ];
  types = check "types" [ "nixos-tests" "tests" "pkgs/cves" "pkgs/dist" "pkgs/fetch" "kernel/hardening" "modules/sbom" ] [ "python3.13" "-m" "basedpyright" "--pythonpath" "${python.workstation}/bin/python3.13" ];
  # Suites of others, against the daemons' code.
  protocols = checkWith
    {
      H2SPEC = "${go.h2spec}/bin/h2spec";
      INTEROP_CLIENT = "${go.grpc-interop.client}/bin/client";
      INTEROP_SERVER = "${go.grpc-interop.server}/bin/server";
    } "protocols" [ "tests/protocols" "docs/conformance.md" ] (pytest ++ [ "tests/protocols" ]);
  # The client for other systems, with an interpreter that lacks what macOS does.
  pyz = checkWith { TALOSCTL_PYZ = pyz; } "pyz" [ "tests/portable" "tests/harness" ] (pytest ++ [ "tests/portable" ]);
  # The documentation's links and anchors.
  inherit site;
  # Pages, in a browser.
  pages = checkIn roots.browser
    {
      BROWSER = "/usr/lib/chromium/chromium";
      BROWSER_DRIVER = "/usr/bin/chromedriver";
      SITE = site;
    } "pages" [ "tests/harness" "tests/pages" "tests/run" ] (pytest ++ [ "tests/pages" ]);
  unit-1 = unit "unit-1" heavy;
  unit-2 = unit "unit-2" (builtins.filter (folder: !(builtins.elem folder heavy)) folders);
  # What reads pages of the documentation or the Makefile, which are no inputs of other tests.
  unit-docs = check "unit-docs" [ "docs" "Makefile" "README.md" "CHANGELOG.md" "CONTRIBUTING.md" "LICENSE" "SECURITY.md" "kernel/README.md" "pkgs/airgap" "pkgs/fetch" "pkgs/roots.toml" "tests/harness" ] (pytest ++ pageTests);
}
