# What machines are started from: a disk image, an ISO, files for network boot; and what they are upgraded with.
{ buildRoot, roots, python, kernel, grub, initramfs, layers, imageCache, sbom, version, rev, time }:
let
  build = { name, script, root ? roots.media, ... }@attributes: buildRoot.runIn root (removeAttrs attributes [ "script" "root" ] // {
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

  iso = build ({
    name = "iso";
    script = ./iso.py;
    grub = grub.iso;
  } // (if imageCache == "" then { } else { inherit imageCache; }));

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

  # For UEFI without GRUB, unsigned: `nix run .#sign-efi` signs both files.
  uki = build {
    name = "uki";
    script = ./uki.py;
    root = roots.uki;
    inherit sbom;
    os_release = builtins.toFile "os-release" (import ../rootfs/os-release.nix { inherit version; });
  };

  netboot = build { name = "netboot"; script = ./netboot.py; };
}
