# Holds what each package, check and app of the flake is made of, without building any: the closure of its .drv file.
{ buildRoot, roots, packages, checks, apps, shells, modules }:
let
  inherit (builtins) attrNames getContext head mapAttrs unsafeDiscardOutputDependency;

  tree = builtins.path {
    path = ../..;
    name = "closures-tree";
    filter = path: _:
      let relative = builtins.substring (builtins.stringLength (toString ../..) + 1) (-1) path;
      in builtins.match "Makefile|docs|docs/build[.]md|pkgs|pkgs/roots[.]toml|pkgs/(fetch|locks)(/.*)?" relative != null
      && builtins.match ".*__pycache__" path == null;
  };

  programs = builtins.path { path = ./.; name = "closures"; filter = path: _: builtins.match ".*[.]py" path != null; };

  # A program's text depends on one derivation.
  derivationOf = app: let drv = head (attrNames (getContext app.program)); in builtins.appendContext drv { ${drv}.path = true; };
  fileOf = package: unsafeDiscardOutputDependency package.drvPath;
in
assert builtins.all (package: package.meta.description != "") (builtins.attrValues packages); # one that lacks it throws
buildRoot.runIn roots.build {
  name = "check-closures";
  command = [ "python3.13" "${programs}/check.py" ];
  PYTHONPATH = "${tree}/pkgs/fetch";
  targets = builtins.toJSON {
    packages = mapAttrs (_: fileOf) packages;
    checks = mapAttrs (_: fileOf) checks;
    apps = mapAttrs (_: derivationOf) apps;
    shells = mapAttrs (_: fileOf) shells;
  };
  page = "${tree}/docs/build.md";
  makefile = "${tree}/Makefile";
  passAsFile = [ "targets" ];
  options = import ./options.nix { inherit modules; };
}
