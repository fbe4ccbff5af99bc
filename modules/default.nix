# What a node image consists of.
{ inputs, buildRoot, roots, python, kernel, go, version, rev, time, keys, signatures }:
let
  build = buildRoot.runIn roots.build;
  run = script: modules: [ "python3.13" "${builtins.path {
    path = ./rootfs;
    name = "scripts";
    filter = path: _: builtins.elem (baseNameOf path) ([ script ] ++ modules);
  }}/${script}" ];
in
rec {
  grub = makeGrub ../kernel/cmdline;

  makeGrub = cmdline: import ./grub { inherit buildRoot roots cmdline; };

  # Everything that is not ours.
  base = build {
    name = "rootfs-base";
    command = run "make_base.py" [ "bundle.py" "elf.py" ];
    PYTHONPATH = "${python.bytecode}:${python.corrections}";
    contents = ./rootfs/contents.toml;
    start = ./rootfs/start.txt;
    files = ./rootfs/files;
    debian = roots.image;
    pci_ids = roots.pci-ids;
    wheels = python.wheels.image;
    compiled = [ go.cni go.containerd.containerd go.containerd.containerd-shim-runc-v2 go.runc ];
  };

  # What a system is made of, for `talosctl get sbom` and scanners: the base, and what is beside it on a machine. Kernel
  # and boot loaders are named by the locks, so that an image for nodes that are containers needs none of them here.
  bill = rec {
    command = [ "python3.13" "${./sbom}/make.py" ];
    inherit base version;
    product = "Talos";
    debs = inputs.debs.image ++ inputs.debs.pci-ids;
    lock = inputs.debianLock [ "image" "pci-ids" ] (packagesOf parts);
    go_lock = inputs.goLock sets;
    wheels = inputs.wheels.image;
    sets = [ "cni" "containerd" "runc" ];
    modules = modulesOf sets;
    parts = [
      "linux=linux-source-6.12=GPL-2.0-only"
      "grub=grub-pc-bin=GPL-3.0-or-later"
      "musl=musl-dev=MIT"
      "systemd-boot=systemd-boot-efi=LGPL-2.1-or-later" # with its stub, in UKIs and signed media
    ];
  };
  packagesOf = map (part: builtins.head (builtins.match "[^=]+=([^=]+)=.+" part)); # NAME=PACKAGE=LICENCE
  modulesOf = sets: map (module: module.zip) (builtins.concatMap (set: inputs.modules.${set}) sets);
  sbom = build (bill // { name = "talos.spdx.json"; });

  # The same with the texts of the licences; those of the parts are in packages that nothing else here needs.
  licenses = build (bill // {
    name = "talos-${version}-licenses";
    part_debs = map inputs.deb [ "grub-common" "grub-pc-bin" "linux-source-6.12" "musl-dev" "systemd-boot-efi" ];
  });

  # And of Kubernetes' images: the modules of all programs, and the packages that their few other programs are chosen
  # from, which are those of the base, and all of the kubelet's and debug's.
  sbomImages = build (bill // rec {
    name = "talos-${version}-images-licenses";
    product = "Talos-images";
    debs = inputs.debs.image ++ inputs.debs.kubelet ++ inputs.debs.debug;
    whole = inputs.debs.kubelet ++ inputs.debs.debug;
    lock = inputs.debianLock [ "image" "kubelet" "debug" ] (packagesOf parts);
    wheels = [ ];
    sets = [ "coredns" "etcd" "flannel" "kubernetes" "network-policies" ];
    go_lock = inputs.goLock sets;
    modules = builtins.concatStringsSep "\n" (modulesOf sets);
    passAsFile = [ "modules" ];
    parts = [ "busybox=busybox-static=GPL-2.0-only" "musl=musl-dev=MIT" ];
    part_debs = map inputs.deb [ "busybox-static" "musl-dev" ];
  });

  # What Python would generate while our modules load. Not with -I, which would ignore PYTHONHASHSEED: some of it follows
  # the order of a set.
  generated = build {
    name = "generated";
    command = [ "${python.client}/bin/python3.13" "-PsB" ] ++ builtins.tail (run "record.py" [ ]);
    packages = builtins.attrValues python.packages;
  };

  # Ours.
  layer = makeLayer { };

  # What two compositions' systems differ in is here, so that they share the base.
  makeLayer = { packages ? builtins.attrValues python.packages, boot ? grub.disk, config ? "" }: build {
    name = "rootfs-layer";
    command = run "make_layer.py" [ "bundle.py" ];
    PYTHONPATH = python.bytecode;
    inherit packages sbom generated boot config;
    os_release = builtins.toFile "os-release" (import ./rootfs/os-release.nix { inherit version; });
  };

  rootfs = makeRootfs layer;

  makeRootfs = layer: build {
    name = "rootfs";
    command = run "make_rootfs.py" [ ];
    PYTHONPATH = python.bytecode;
    inherit base layer;
  };

  # zstd although xz is 10 % smaller: a node's first start reads 60 MB, and xz unpacks ten times slower.
  # 128K although 256K is 2 % smaller, 1M 6 %: for each of Python's many files a whole block is unpacked.
  squashfsBase = build {
    name = "squashfs-base";
    command = [ "mksquashfs" base (builtins.placeholder "out") "-comp" "zstd" "-Xcompression-level" "22" "-b" "128K" ]
      ++ [ "-all-root" "-no-xattrs" "-no-exports" "-no-progress" "-quiet" ];
  };

  squashfs = makeSquashfs layer;

  makeSquashfs = layer: build {
    name = "talos-${version}.squashfs";
    command = [ "python3.13" ./squashfs/append.py ];
    base = squashfsBase;
    inherit layer;
  };

  # What the kernel unpacks: the early init, the system image that it mounts, and the image's hash tree.
  initramfs = makeInitramfs squashfs;

  makeInitramfs = image: build {
    name = "talos-${version}.initramfs";
    command = [ "python3.13" ./initramfs/make.py ];
    PYTHONPATH = "${python.folders.upgrade}:${python.folders.system}";
    inherit (kernel) init;
    inherit image;
  };

  # One that fails on purpose, for tests: `replacements` are folders of packages whose modules replace ours.
  makeFaulty = replacements:
    makeInitramfs (makeSquashfs (makeLayer {
      packages = builtins.attrValues python.packages ++ [ (python.makePackage "faults" replacements) ];
    }));

  # Who a release is, and whose releases it accepts: the last archive of an initramfs. Nothing else has the commit,
  # so that a commit that changes nothing rebuilds nothing, and the tests on virtual machines boot without it.
  stamp = (if keys == [ ] then builtins.trace keyless else (stamp: stamp)) (makeStamp keys signatures);

  keyless = "warning: this build has no release key, so its nodes will accept no upgrade: put a public key into pkgs/keys (`nix run .#keygen`), or name it in lib.image's keys";

  makeStamp = keys: signatures: build {
    name = "talos-${version}-stamp";
    command = [ "python3.13" ./initramfs/stamp.py ];
    PYTHONPATH = "${python.folders.upgrade}:${python.folders.system}";
    inherit keys signatures;
    os_release = builtins.toFile "os-release" (import ./rootfs/os-release.nix { inherit version; } + "BUILD_ID=${rev}\nCOMMIT_TIME=${time}\n");
  };

  join = parts: if builtins.length parts == 1 then builtins.head parts else build {
    name = "talos-${version}.initramfs";
    command = [ "python3.13" ./initramfs/append.py ];
    inherit parts;
  };

  extensions = import ./extensions { inherit inputs buildRoot roots python base version; };

  # Everything that is made of a system with these options, which are checked; for tests, without a stamp.
  makeImage = let make = extensions; kernels = kernel; in
    { stamps ? [ stamp ], extensions ? [ ], config ? "", imageCache ? "", kernelArgs ? [ ], kernelOptions ? { }, platform ? "metal", tracing ? false }:
    let
      isConsole = argument: builtins.match "console=.*" argument != null;
      hasConsole = builtins.any isConsole kernelArgs;
      arguments = builtins.filter (argument: !(hasConsole && isConsole argument)) (import ./platforms.nix).${platform} ++ kernelArgs;
      default = if tracing then kernels.tracing.cmdline else builtins.readFile ../kernel/cmdline;
      grub = makeGrub (if arguments == [ ] && !tracing then ../kernel/cmdline else builtins.toFile "cmdline"
        (builtins.concatStringsSep "\n" ([ default ] ++ arguments ++ [ "" ])));
      kernel = kernels.withOptions ((if tracing then kernels.tracing.options else { }) // kernelOptions);
      layer = makeLayer { boot = grub.disk; config = if config == "" then "" else checkConfig config; };
      image = makeSquashfs layer;
      initramfs = join (
        (if extensions == [ ] then [ (makeInitramfs image) ]
        else [ (make.microcode extensions) (makeInitramfs image) (make.archive extensions) ])
        ++ stamps
      );
      ownSbom = if extensions == [ ] then sbom else build {
        name = "talos.spdx.json";
        command = [ "python3.13" "${./sbom}/merge.py" ];
        product = "Talos";
        inherit sbom version;
        extensions = map (extension: "${extension}") extensions;
      };
    in
    {
      inherit initramfs;
      sbom = ownSbom;
      inherit (kernel) kernel;
      kernel-config = kernel.config;
      squashfs = if extensions == [ ] then image else make.squashfs (makeRootfs layer) extensions;
    } // import ./media {
      inherit buildRoot roots python kernel grub initramfs imageCache version rev time;
      sbom = ownSbom;
      layers = if extensions == [ ] then "" else make.layers extensions;
    };

  media = makeImage { stamps = [ ]; };

  checkConfig = config: build {
    name = "config.yaml";
    command = [ "python3.13" ./config/check.py ];
    talosctl = python.unstamped;
    inherit config;
  };

  # What is wrong with options of `lib.image`: lines.
  problemsOf = import ./options.nix { inherit (kernel) lockedOptions lockedBy; platforms = import ./platforms.nix; };

  # `lib.image`. It returns what is made of a composition; all that its options leave alone is shared with others.
  image = options:
    let
      problems = problemsOf options;
      made = makeImage (removeAttrs options [ "keys" "secureBoot" "signatures" ] // {
        stamps = [ (if options ? keys then makeStamp options.keys (options.signatures or 1) else stamp) ];
      });
    in
    if problems != [ ] then throw (builtins.concatStringsSep "\n" problems)
    else made // (if options ? secureBoot then { sign = makeSign options.secureBoot made; } else { });

  # The program that signs what an image consists of for Secure Boot, with the private keys of these public parts.
  makeSign = secureBoot: image:
    let
      keys = buildRoot.runIn roots.workstation {
        name = "secureBoot";
        command = [ "${python.program "owner" "talos.secureboot.owner" [ ] [ ]}/bin/owner" (builtins.placeholder "out") ]
          ++ map (name: "--${name}=${secureBoot.${name}}") (builtins.attrNames secureBoot);
      };
    in
    python.program "sign" "talos.secureboot.sign" [
      "TALOS_MEDIA_ROOT=${roots.media}"
      "TALOS_SIGN_KEYS=${keys}"
      "TALOS_SIGN_UKI=${image.uki}"
      "TALOS_SIGN_ISO=${image.iso}"
      "TALOS_SIGN_DISK=${image.disk-image}/disk.raw"
      "TALOS_SIGN_RELEASE=${image.release}"
    ] [ ];

  # What it is made of: `make size`.
  size = build {
    name = "size-report";
    command = [ "python3.13" ./size/report.py ];
    inherit base layer squashfs;
  };
}
