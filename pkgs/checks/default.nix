# What `nix flake check` runs, each check a derivation of its own that sees only what it needs.
{ buildRoot, roots, python }:
let
  tree = parts: builtins.path {
    path = ../..;
    name = "checked-tree";
    filter = path: _:
      let relative = builtins.substring (builtins.stringLength (toString ../..) + 1) (-1) path;
      in builtins.match "(${builtins.concatStringsSep "|" parts})(/.*)?" relative != null
        && builtins.match ".*(__pycache__|_pb2[.]pyi?)" path == null;
  };
  code = [ "python" "tests" "tests/unit" "tests/data" "tests/lint" "tests/conftest.py" "pkgs" "pkgs/fetch" "pkgs/roots.toml" "pyproject.toml" "VERSION" ];

  check = name: words: buildRoot.runIn roots.checks {
    name = "check-${name}";
    command = [ "${python.workstation}/bin/python3.13" "${./run.py}" ] ++ words;
    tree = tree code;
    generated = python.api;
    inherit (python) workstation;
  };
in
{
  lint = check "lint" [ "ruff" "check" "python" "tests" ];
  format = check "format" [ "ruff" "format" "--check" "python" "tests" ];
  floors = check "floors" [ "python3.13" "tests/lint/floors.py" ];
  types = check "types" [ "python3.13" "-m" "basedpyright" ];
  unit = check "unit" [ "python3.13" "-m" "pytest" "tests/unit" ];
}
