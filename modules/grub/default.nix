# GRUB's images: a disk's, which the node image carries for installers, and an ISO's.
{ buildRoot, roots }:
let
  build = purpose: buildRoot.runIn roots.grub {
    name = "grub-${purpose}";
    command = [ "python3.13" ./make.py ];
    inherit purpose;
    config = ./. + "/${purpose}.cfg"; # runs first, and finds the folder with grub.cfg
    cmdline = ../../kernel/cmdline;
  };
in
{ disk = build "disk"; iso = build "iso"; }
