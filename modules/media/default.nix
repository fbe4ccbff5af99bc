# What machines are started from: a disk image, an ISO, files for network boot.
{ buildRoot, roots, python, kernel, grub, initramfs, version }:
let
  build = { name, script, ... }@attributes: buildRoot.runIn roots.media (removeAttrs attributes [ "script" ] // {
    name = "talos-${version}-${name}";
    command = [ "python3.13" script ];
    PYTHONPATH = "${python.folders.disks}:${python.folders.system}";
    inherit (kernel) kernel;
    inherit initramfs version;
    boot = grub.disk;
  });
in
{
  disk-image = build { name = "disk-image"; script = ./disk_image.py; };

  iso = build {
    name = "iso";
    script = ./iso.py;
    grub = grub.iso;
  };

  netboot = build { name = "netboot"; script = ./netboot.py; };
}
