# What a node image consists of.
{ inputs, buildRoot, roots, python, kernel, go, version, rev, keys }:
let
  build = buildRoot.runIn roots.build;
  run = script: modules: [ "python3.13" "${builtins.path {
    path = ./rootfs;
    name = "scripts";
    filter = path: _: builtins.elem (baseNameOf path) ([ script ] ++ modules);
  }}/${script}" ];
in
rec {
  grub = import ./grub { inherit buildRoot roots; };

  # Everything that is not ours.
  base = build {
    name = "rootfs-base";
    command = run "make_base.py" [ "bundle.py" "elf.py" ];
    PYTHONPATH = "${python.bytecode}:${python.corrections}";
    contents = ./rootfs/contents.toml;
    start = ./rootfs/start.txt;
    files = ./rootfs/files;
    debian = roots.image;
    wheels = python.wheels.image;
    boot = grub.disk;
    cni = go.cni;
  };

  # What the base is made of, for `talosctl get sbom` and scanners.
  sbom = build {
    name = "talos.spdx.json";
    command = [ "python3.13" ./sbom/make.py ];
    inherit base version;
    product = "Talos";
    debs = inputs.debs.image;
    lock = ../pkgs/locks/debian.json;
    wheels_lock = ../pkgs/locks/wheels-image.txt;
  };

  # What Python would generate while our modules load.
  generated = build {
    name = "generated";
    command = [ "${python.workstation}/bin/python3.13" "-IB" ] ++ builtins.tail (run "record.py" [ ]);
    packages = builtins.attrValues python.packages;
  };

  # Ours.
  layer = makeLayer (builtins.attrValues python.packages);

  makeLayer = packages: build {
    name = "rootfs-layer";
    command = run "make_layer.py" [ "bundle.py" ];
    PYTHONPATH = python.bytecode;
    inherit packages sbom generated;
    os_release = builtins.toFile "os-release" (import ./rootfs/os-release.nix { inherit version; });
  };

  rootfs = build {
    name = "rootfs";
    command = run "make_rootfs.py" [ ];
    PYTHONPATH = python.bytecode;
    inherit base layer;
  };

  # zstd although xz is 10 % smaller: a node's first start reads 60 MB, and xz unpacks ten times slower.
  # 256K although 1M is 4 % smaller: Python reads 700 small files, and for each a whole block is unpacked.
  squashfsBase = build {
    name = "squashfs-base";
    command = [ "mksquashfs" base (builtins.placeholder "out") "-comp" "zstd" "-Xcompression-level" "22" "-b" "256K" ]
      ++ [ "-all-root" "-no-xattrs" "-no-exports" "-no-progress" "-quiet" ];
  };

  squashfs = makeSquashfs layer;

  makeSquashfs = layer: build {
    name = "talos-${version}.squashfs";
    command = [ "python3.13" ./squashfs/append.py ];
    base = squashfsBase;
    inherit layer;
  };

  # What the kernel unpacks: the early init, which checks and mounts the system image that is with it.
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
    makeInitramfs (makeSquashfs (makeLayer (builtins.attrValues python.packages ++ [ (python.makePackage "faults" replacements) ])));

  # Who a release is, and whose releases it accepts: the last archive of an initramfs. Nothing else knows the commit,
  # so that a commit that changes nothing rebuilds nothing, and the tests on virtual machines boot without it.
  stamp = build {
    name = "talos-${version}-stamp";
    command = [ "python3.13" ./initramfs/stamp.py ];
    PYTHONPATH = "${python.folders.upgrade}:${python.folders.system}";
    inherit keys;
    os_release = builtins.toFile "os-release" (import ./rootfs/os-release.nix { inherit version; } + "BUILD_ID=${rev}\n");
  };

  join = parts: if builtins.length parts == 1 then builtins.head parts else build {
    name = "talos-${version}.initramfs";
    command = [ "python3.13" ./initramfs/append.py ];
    inherit parts;
  };

  extensions = import ./extensions { inherit inputs buildRoot roots python base rootfs version; };

  # Everything that is made of a system with these extensions; for tests, without a stamp.
  makeImage = let make = extensions; in { stamps ? [ stamp ], extensions ? [ ] }:
    let
      archives = if extensions == [ ] then [ ] else [ (make.archive extensions) ];
      whole = join ([ initramfs ] ++ archives ++ stamps);
    in
    {
      initramfs = whole;
      squashfs = if extensions == [ ] then squashfs else make.squashfs extensions;
    } // import ./media {
      inherit buildRoot roots python kernel grub version rev;
      initramfs = whole;
      layers = if extensions == [ ] then "" else make.layers extensions;
    };

  media = makeImage { stamps = [ ]; };
  image = { extensions ? [ ] }: makeImage { inherit extensions; };

  # What it is made of: `make size`.
  size = build {
    name = "size-report";
    command = [ "python3.13" ./size/report.py ];
    inherit base layer squashfs;
  };
}
