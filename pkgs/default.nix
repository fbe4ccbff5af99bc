{ rev }:
let
  inputs = import ./inputs.nix;
  buildRoot = import ./build-root.nix { inherit (inputs) busybox; };
  roots = builtins.mapAttrs buildRoot.unpack inputs.debs;
  python = import ./python { inherit inputs buildRoot roots; };
  version = builtins.head (builtins.match "([^\n]+)\n*" (builtins.readFile ../VERSION));
  modules = import ../modules { inherit inputs buildRoot roots python version rev; };
in
{
  packages = { root-image = roots.image; root-build = roots.build; root-cc = roots.cc; root-workstation = roots.workstation;
   inherit (python) api workstation;
   inherit (modules) base layer squashfsBase squashfs;
  } // builtins.listToAttrs (map (n: {name="talos-${n}"; value=python.folders.${n};}) (builtins.attrNames python.folders));
}
