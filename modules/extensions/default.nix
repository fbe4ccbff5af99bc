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

  # An extension whose service is a program from Debian: `programs` are copied from the packages of `debian`, with their
  # libraries. `folder` holds manifest.yaml and NAME.yaml, the service's definition; @version@ there is `version`.
  debianService = { name, debian, debs, version, programs, folder }: build {
    inherit name version programs folder;
    service = name;
    command = [ "python3.13" ./debian.py ];
    PYTHONPATH = builtins.path { path = ../rootfs; name = "elf"; filter = path: _: baseNameOf path == "elf.py"; };
    inherit debian debs;
    lock = ../../pkgs/locks/debian.json;
    sbom = ../sbom;
  };

  qemu-guest-agent = debianService {
    name = "qemu-guest-agent";
    debian = roots.qemu-guest-agent;
    debs = inputs.debs.qemu-guest-agent;
    version = inputs.versions.qemu-guest-agent;
    programs = [ "usr/sbin/qemu-ga" ];
    folder = ./qemu-guest-agent;
  };

  # An extension of firmware from Debian: all files of `folders` below /usr/lib/firmware.
  debianFirmware = { name, package, folders, manifest }: build {
    inherit name folders manifest;
    version = inputs.versions.${package};
    command = [ "python3.13" ./firmware.py ];
    debian = roots.microcode;
    debs = builtins.filter (deb: builtins.match "${package}_.*" deb.name != null) inputs.debs.microcode;
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
