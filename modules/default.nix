# What a node image consists of.
{ buildRoot, roots, python, version, rev }:
let
  build = buildRoot.runIn roots.build;
  pythonFiles = name: path: builtins.path { inherit name path; filter = file: _: builtins.match ".*[.]py" file != null; };
  scripts = pythonFiles "rootfs-build" ./rootfs;

  # The daemons of an image, and the floors below them: every folder but those of the workstation.
  nodeFolders = builtins.attrValues (removeAttrs python.folders [ "provision" "talosctl" ]);
in
rec {
  # Everything that is not ours.
  base = build {
    name = "rootfs-base";
    command = [ "python3.13" "${scripts}/make_base.py" ];
    PYTHONPATH = "${python.scripts}:${scripts}";
    contents = ./rootfs/contents.toml;
    files = ./rootfs/files;
    debian = roots.image;
    wheels = python.wheels.image;
  };

  # Ours: the one derivation of the image that knows the commit.
  layer = build {
    name = "rootfs-layer";
    command = [ "python3.13" "${scripts}/make_layer.py" ];
    PYTHONPATH = python.scripts;
    folders = nodeFolders;
    os_release = builtins.toFile "os-release" (import ./rootfs/os-release.nix { inherit version rev; });
  };

  rootfs = build {
    name = "rootfs";
    command = [ "python3.13" "${scripts}/make_rootfs.py" ];
    PYTHONPATH = python.scripts;
    inherit base layer;
  };

  # zstd although xz is 10 % smaller: a node's first start reads 60 MB, and xz unpacks ten times slower.
  squashfsBase = build {
    name = "squashfs-base";
    command = [ "mksquashfs" base (builtins.placeholder "out") "-comp" "zstd" "-Xcompression-level" "22" "-b" "1M" ]
      ++ [ "-all-root" "-no-xattrs" "-no-exports" "-no-progress" "-quiet" ];
  };

  squashfs = build {
    name = "talos-${version}.squashfs";
    command = [ "python3.13" ./squashfs/append.py ];
    base = squashfsBase;
    inherit layer;
  };

  # What it is made of: `make size`.
  size = build {
    name = "size-report";
    command = [ "python3.13" ./size/report.py ];
    inherit base layer squashfs;
  };
}
