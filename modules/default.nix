# What a node image consists of.
{ inputs, buildRoot, roots, python, version, rev }:
let
  build = buildRoot.runIn roots.build;
  scripts = builtins.path { path = ./rootfs; name = "rootfs-build"; filter = path: _: builtins.match ".*[.]py" path != null; };

  # The daemons of an image, and the floors below them: every folder but those of the workstation.
  workstationOnly = [ "provision" "talosctl" ];
  nodeFolders = builtins.attrValues (removeAttrs python.folders workstationOnly);
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

  # The one derivation that knows the commit.
  osRelease = builtins.toFile "os-release" (import ./rootfs/os-release.nix { inherit version rev; });

  layer = build {
    name = "rootfs-layer";
    command = [ "python3.13" "${scripts}/make_layer.py" ];
    PYTHONPATH = python.scripts;
    folders = nodeFolders;
    os_release = osRelease;
  };

  squashfsBase = build {
    name = "squashfs-base";
    command = [ "mksquashfs" base (builtins.placeholder "out") "-comp" "zstd" "-Xcompression-level" "22" "-b" "256K" ]
      ++ [ "-all-root" "-no-xattrs" "-no-exports" "-no-progress" "-quiet" ];
  };

  squashfs = build {
    name = "talos-${version}.squashfs";
    command = [ "python3.13" ./squashfs/append.py ];
    base = squashfsBase;
    inherit layer;
  };
}
