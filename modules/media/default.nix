# What machines are started from: a disk image, an ISO, files for network boot; and what they are upgraded with.
{ buildRoot, roots, python, kernel, grub, initramfs, layers, version, rev, time }:
let
  build = { name, script, ... }@attributes: buildRoot.runIn roots.media (removeAttrs attributes [ "script" ] // {
    name = "talos-${version}-${name}";
    command = [ "python3.13" script ];
    PYTHONPATH = "${python.folders.disks}:${python.folders.upgrade}:${python.folders.system}";
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

  # What upgrades are made with, unsigned: `nix run .#sign` signs the finished file.
  release = buildRoot.runIn roots.workstation {
    name = "talos-${version}-release.tar";
    command = [ "${python.client}/bin/python3.13" ./release.py ];
    PYTHONPATH = builtins.concatStringsSep ":" (map (name: python.folders.${name}) [ "upgrade" "config" "pki" "resource" "api" "system" ]);
    inherit (kernel) kernel;
    inherit initramfs layers version rev;
    commit_time = time;
    boot = grub.disk;
  };

  netboot = build { name = "netboot"; script = ./netboot.py; };
}
