# GRUB's images: a disk's, which the node image carries for installers, and an ISO's.
{ buildRoot, roots, cmdline }:
let
  # The modules that make a disk's first config, and nothing else: an edit elsewhere builds no boot loader.
  sources = [
    "talos"
    "talos/system"
    "talos/system/errors.py"
    "talos/upgrade"
    "talos/upgrade/slots"
    "talos/upgrade/slots/grub"
    "talos/upgrade/slots/grub/config.py"
    "talos/upgrade/slots/grub/environment.py"
    "talos/upgrade/state.py"
  ];
  python = ../../python;

  build = purpose: buildRoot.runIn roots.grub {
    name = "grub-${purpose}";
    command = [ "python3.13" ./make.py ];
    inherit purpose;
    config = ./. + "/${purpose}.cfg"; # runs first, and finds the folder with grub.cfg
    inherit cmdline;
    PYTHONPATH = builtins.path {
      path = python;
      name = "grub-config";
      filter = path: _: builtins.any (source: path == "${toString python}/${source}") sources;
    };
  };
in
{ disk = build "disk"; iso = build "iso"; }
