# The package set. Everything is a function of the locks, the sources, `rev` and its `time`, and the file with a further release key.
{ rev, time, key }:
let
  # Whose releases images accept: the committed keys, and one of this machine's, which only an impure build names.
  keys = map (name: ./keys + "/${name}") (builtins.filter (name: builtins.match ".*[.]pub" name != null) (builtins.attrNames (builtins.readDir ./keys)))
    ++ (if key == "" then [ ] else [ (builtins.toFile "development.pub" (builtins.readFile key)) ]);

  # How many of them must have signed a release; a development key counts alone.
  signatures = if key == "" && builtins.pathExists ./keys/signatures then number (builtins.readFile ./keys/signatures) else 1;
  number = text:
    let found = builtins.match "([0-9]+)\n?" text; needed = if found == null then 0 else builtins.fromJSON (builtins.head found);
    in if needed >= 1 && needed <= builtins.length keys then needed
    else throw "pkgs/keys/signatures: ${builtins.toJSON text} is not allowed; it is a number from 1 to that of the keys beside it, ${toString (builtins.length keys)}";

  version = builtins.head (builtins.match "([^\n]+)\n*" (builtins.readFile ../VERSION));
  inputs = import ./inputs.nix;
  buildRoot = import ./build-root.nix { inherit (inputs) busybox; };
  roots = builtins.mapAttrs buildRoot.unpack inputs.debs;
  python = import ./python { inherit inputs buildRoot roots version rev; };
  go = import ./go { inherit inputs buildRoot roots; };
  images = import ./images { inherit inputs buildRoot roots go upgrade-controller version; inherit (python) talosctl wheels; inherit (modules) base; };
  kernel = import ../kernel { inherit buildRoot roots; };
  modules = import ../modules { inherit inputs buildRoot roots python kernel go version rev time keys signatures; };
  pxe = python.program "pxe" "talos.provision.pxe.main" [ "TALOS_PXE_ROOT=${roots.vm}" ] [ ];
  release = name: python.program name "talos.upgrade.release.main" [ ] [ ];
  sign-efi = python.program "sign-efi" "talos.secureboot.main" [ ] [ ];
  sign-disk = python.program "sign-disk" "talos.secureboot.sign_disk" [ "TALOS_MEDIA_ROOT=${roots.media}" ] [ ];
  sign-iso = python.program "sign-iso" "talos.secureboot.sign_iso" [ "TALOS_MEDIA_ROOT=${roots.media}" ] [ ];
  sign-netboot = python.program "sign-netboot" "talos.secureboot.sign_netboot" [ ] [ ];
  sign-release = python.program "sign-release" "talos.secureboot.sign_release" [ ] [ ];
  discovery = python.program "discovery" "talos.discovery.main" [ ] [ ];
  kms = python.program "kms" "talos.kms.main" [ ] [ ];
  siderolink = python.program "siderolink" "talos.siderolink.main" [ ] [ ];
  airgap = python.program "airgap" "talos.provision.airgap" [ "TALOS_AIRGAP_FILES=${builtins.concatStringsSep ":" [
    "README.md=${./airgap/README.md}"
    "talos.iso=${(modules.image { imageCache = makeImageCache images.all; }).iso}"
    "netboot=${image.netboot}"
    "images=${images.all}"
    "talosctl=${portable.file}"
    "kubectl=${go.kubernetes.kubectl}/bin/kubectl"
    "discovery=${portable.discovery}"
  ]}" ] [ ];
  # Of the client's own rows of commands and flags.
  man-pages = buildRoot.runIn roots.build {
    name = "talosctl-man-pages";
    command = [ "${python.program "man-pages" "talos.talosctl.man_pages" [ ] [ ]}/bin/man-pages" "${builtins.placeholder "out"}/share/man/man1" ];
  };
  upgrade-controller = python.program "upgrade-controller" "talos.upgrade_controller.main" [ ] [ ];
  image = modules.image { };
  built = import ./checks { inherit buildRoot roots python go site; pyz = portable.unstamped; } // { kernel-hardening = kernel.hardening; portable = portable.check; } // vms.checks;
  # What nodes serve to themselves from a disk, docs/image-cache.md: the flat layout, of archives.
  makeImageCache = archives: buildRoot.runIn roots.workstation {
    name = "image-cache";
    command = [ "${python.program "archive-cache" "talos.provision.mirror.archive_cache" [ ] [ ]}/bin/archive-cache" archives (builtins.placeholder "out") ];
  };
  hello = modules.extensions.debianService {
    name = "hello";
    debian = roots.checks;
    debs = inputs.debs.checks;
    version = inputs.versions.coreutils;
    programs = [ "usr/bin/env" "usr/bin/tail" "usr/bin/timeout" ];
    folder = builtins.path { path = ../tests/data/extension; name = "hello"; };
  };
  vms = import ../nixos-tests {
    inherit buildRoot roots python;
    inherit (image) iso;
    assets = {
      inherit (modules) initramfs squashfs;
      faulty-initramfs = modules.makeFaulty (map (folder: python.makeFolder folder ../nixos-tests/faults/${folder}) [ "apid" "machined" ]);
      inherit (modules.media) disk-image iso netboot release uki;
      release-tool = release "release";
      images = images.cluster;
      images-all = images.all;
      upgrade-controller-image = images.controller;
      inherit upgrade-controller;
      inherit discovery kms pxe siderolink sign-disk sign-efi sign-iso sign-release;
      uki-tools = roots.uki;
      iso-images = (modules.makeImage { stamps = [ ]; imageCache = makeImageCache images.cluster; }).iso;
      inherit (kernel) kernel;
      boot-loader = modules.grub.disk;
      extensions = modules.extensions.archive [ modules.extensions.qemu-guest-agent hello ];
      cmdline = builtins.path { path = ../kernel/cmdline; name = "cmdline"; };
    };
  };
  meta = import ./descriptions.nix { inherit (python) layers; };
  portable = import ./portable { inherit buildRoot roots python discovery version; inherit (inputs) busybox; };
  site = import ./site { inherit buildRoot roots version; inherit (python) wheels; };
  develop = import ./shell { inherit buildRoot roots; inherit (python) workstation; };
in
rec {
  # Images of one's own: `lib.image { extensions = [ … ]; }`, docs/extensions.md.
  lib = {
    inherit (modules) image;
    inherit (modules.extensions) debianExtension debianService;
  };
  packages = builtins.mapAttrs meta.package (python.packages // {
    inherit (python) api talosctl workstation;
    inherit (modules) rootfs squashfs stamp sbom licenses size;
    sbom-images = modules.sbomImages;
    talosctl-portable = portable.file;
    talosctl-pyz = portable.pyz;
    inherit (modules.extensions) amd-ucode intel-ucode iscsi-tools qemu-guest-agent util-linux-tools;
    # For tests: a node with extensions, one of them without a condition that a container lacks.
    extended = (modules.image { extensions = with modules.extensions; [ qemu-guest-agent hello iscsi-tools util-linux-tools ]; }).squashfs;
    inherit (image) disk-image initramfs iso netboot release uki;
    inherit (kernel) kernel init;
    images = images.cluster;
    images-all = images.all;
    debug-image = images.debug;
    image-cache = makeImageCache images.all;
    images-e2e = images.e2e;
    upgrade-controller-image = images.controller;
    talosctl-image = images.client;
    talosctl-man-pages = man-pages;
    inherit site;
    images-previous = images.previous;
    images-workloads = images.workloads;
    kubectl = go.kubernetes.kubectl;
    inherit (go) cni containerd contour coredns etcd flannel grpc-interop h2spec kubernetes kubernetes-e2e metallb network-policies runc workloads;
    root-uki = roots.uki;
    root-vm = roots.vm;
    root-peers = roots.peers;
    kernel-config = kernel.config;
    kernel-source = roots.kernel-source;
    kernel-hardening = kernel.hardening;
    image = modules.squashfs;
    default = modules.squashfs;
  });
  checks = built // { closures = import ./closures { inherit buildRoot roots packages apps modules shells; checks = built; }; };
  shells.default = develop.shell;
  formatter = develop.formatter // { meta = { description = "formats Python, by ruff"; mainProgram = "ruff-format"; }; };
  apps = builtins.mapAttrs meta.app (builtins.mapAttrs (_: app: app.program) vms.apps // {
    airgap = "${airgap}/bin/airgap";
    discovery = "${discovery}/bin/discovery";
    kms = "${kms}/bin/kms";
    siderolink = "${siderolink}/bin/siderolink";
    upgrade-controller = "${upgrade-controller}/bin/upgrade-controller";
    pxe = "${pxe}/bin/pxe";
    keygen = "${release "keygen"}/bin/keygen";
    sign = "${release "sign"}/bin/sign";
    sign-disk = "${sign-disk}/bin/sign-disk";
    sign-efi = "${sign-efi}/bin/sign-efi";
    sign-iso = "${sign-iso}/bin/sign-iso";
    sign-netboot = "${sign-netboot}/bin/sign-netboot";
    sign-release = "${sign-release}/bin/sign-release";
    talosctl = "${python.talosctl}/bin/talosctl";
  });
}
