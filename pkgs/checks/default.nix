# What `nix flake check` runs, each check a derivation of its own that sees only what it needs.
{ buildRoot, roots, python }:
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
  code = [ "python" "tests/unit" "tests/data" "tests/lint" "tests/conftest.py" "pyproject.toml" "VERSION" ];
  everything = [ "nixos-tests" "tests" "pkgs" "modules" "kernel" ];

  check = name: more: argv: buildRoot.runIn roots.checks {
    name = "check-${name}";
    command = [ "${python.workstation}/bin/python3.13" "${./run.py}" ] ++ argv;
    tree = tree (code ++ more);
    generated = python.api;
    inherit (python) workstation;
  };
in
{
  lint = check "lint" everything [ "ruff" "check" ];
  format = check "format" everything [ "ruff" "format" "--check" ];
  daemons = buildRoot.runIn roots.checks {
    name = "check-daemons";
    command = [ "${python.workstation}/bin/python3.13" "${./import_daemons.py}" ];
    packages = builtins.attrValues python.packages;
    inherit (python) workstation;
  };
  floors = check "floors" [ "docs/architecture.md" ] [ "python3.13" "tests/lint/floors.py" ];
  grants = check "grants" [ ] [ "python3.13" "tests/lint/grants.py" "--check" ];
  types = check "types" [ "nixos-tests" "tests" "pkgs/fetch" "kernel/hardening" ] [ "python3.13" "-m" "basedpyright" "--pythonpath" "${python.workstation}/bin/python3.13" ];
  unit = check "unit" [ "tests/bench/timeline.py" "tests/harness" "modules/rootfs/files" "nixos-tests/driver" "docs" "pkgs/fetch" "pkgs/roots.toml" "pkgs/locks" "kernel/hardening" ] [ "python3.13" "-m" "pytest" "tests/unit" ];
}
