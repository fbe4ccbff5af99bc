# System extensions: squashfs layers beside the system image. docs/extensions.md.
{ inputs, buildRoot, roots, python, base, version }:
let
  build = buildRoot.runIn roots.build;

  # `extensions` are folders with manifest.yaml and rootfs/: paths, or derivations such as those below.
  compose = name: argv: extensions: build {
    inherit name;
    command = [ "python3.13" "-m" "talos.extensions.compose" "--base" base "--version" version ] ++ argv
      ++ [ "--out" (builtins.placeholder "out") ] ++ map (extension: "${extension}") extensions;
    PYTHONPATH = "${python.folders.extensions}:${python.folders.upgrade}:${python.folders.system}:${python.wheels.image}/site";
  };
in
rec {
  # The folder with each layer and its hash tree, lists of their hashes, and extensions.yaml.
  layers = compose "extensions" [ ];

  # The same as an archive for the end of an initramfs.
  archive = extensions: build {
    name = "extensions.cpio";
    command = [ "python3.13" ../initramfs/folder.py ];
    PYTHONPATH = "${python.folders.upgrade}:${python.folders.system}";
    name_inside = "extensions";
    folder = layers extensions;
  };

  # A system image for nodes that are containers, which holds the extensions' files itself.
  squashfs = rootfs: extensions: build {
    name = "talos-${version}-extended.squashfs";
    command = [ "python3.13" ./squashfs.py ];
    PYTHONPATH = python.bytecode;
    inherit rootfs;
    layers = layers extensions;
    tree = compose "extensions-tree" [ "--tree" ] extensions;
  };

  # The processors' microcode in them, as an archive for the beginning of an initramfs; empty when there is none.
  microcode = extensions: build {
    name = "microcode.cpio";
    command = [ "python3.13" ../initramfs/microcode.py ];
    PYTHONPATH = "${python.folders.upgrade}:${python.folders.system}";
    extensions = map (extension: "${extension}") extensions;
  };

  # An extension of Debian's programs, which are copied from the packages of `debian` with their libraries: `programs` run in the
  # container of `service`, `tools` in it and on the node. `folder` holds manifest.yaml and SERVICE.yaml, the service's definition;
  # @version@ in the manifest is `version`.
  debianExtension = { name, debian, debs, version, folder, service ? "", programs ? [ ], tools ? [ ] }: build {
    inherit name version programs tools folder service;
    place = if service == "" then "lib/${name}" else "lib/containers/${service}";
    command = [ "python3.13" ./debian.py ];
    PYTHONPATH = builtins.path { path = ../rootfs; name = "elf"; filter = path: _: baseNameOf path == "elf.py"; };
    inherit debian debs;
    lock = ../../pkgs/locks/debian.json;
    sbom = ../sbom;
  };
  debianService = arguments: debianExtension ({ service = arguments.name; } // arguments);

  qemu-guest-agent = debianService {
    name = "qemu-guest-agent";
    debian = roots.qemu-guest-agent;
    debs = inputs.debs.qemu-guest-agent;
    version = inputs.versions.qemu-guest-agent;
    programs = [ "usr/sbin/qemu-ga" ];
    folder = ./qemu-guest-agent;
  };

  # The initiator of iSCSI: its daemon as a service, its client for drivers in pods.
  iscsi-tools = debianService {
    name = "iscsi-tools";
    service = "iscsid";
    debian = roots.iscsi-tools;
    debs = inputs.debs.iscsi-tools;
    version = inputs.versions.open-iscsi;
    programs = [ "usr/sbin/iscsid" ];
    tools = [ "usr/sbin/iscsi-iname" "usr/sbin/iscsiadm" ];
    folder = ./iscsi-tools;
  };

  # Programs that drivers in pods call in the node's namespaces; the system has mount and losetup.
  util-linux-tools = debianExtension {
    name = "util-linux-tools";
    debian = roots.util-linux-tools;
    debs = inputs.debs.util-linux-tools;
    version = inputs.versions.util-linux;
    tools = [ "usr/bin/findmnt" "usr/bin/lsblk" "usr/bin/nsenter" ]
      ++ map (name: "usr/sbin/${name}") [ "blkdiscard" "blkid" "blockdev" "fsfreeze" "fstrim" "wipefs" ];
    folder = ./util-linux-tools;
  };

  # An extension of firmware from Debian: all files of `folders` below /usr/lib/firmware.
  debianFirmware = { name, package, folders, manifest }: build {
    inherit name folders manifest;
    version = inputs.versions.${package};
    command = [ "python3.13" ./firmware.py ];
    debian = roots.microcode;
    debs = [ (inputs.deb package) ];
    lock = ../../pkgs/locks/debian.json;
    sbom = ../sbom;
  };

  intel-ucode = debianFirmware {
    name = "intel-ucode";
    package = "intel-microcode";
    folders = [ "intel-ucode" ];
    manifest = ./intel-ucode/manifest.yaml;
  };

  amd-ucode = debianFirmware {
    name = "amd-ucode";
    package = "amd64-microcode";
    folders = [ "amd-ucode" ];
    manifest = ./amd-ucode/manifest.yaml;
  };
}
