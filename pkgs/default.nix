# The package set. Everything is a function of the locks, the sources and `rev`.
{ rev }:
let
  version = builtins.head (builtins.match "([^\n]+)\n*" (builtins.readFile ../VERSION));
  inputs = import ./inputs.nix;
  buildRoot = import ./build-root.nix { inherit (inputs) busybox; };
  roots = builtins.mapAttrs buildRoot.unpack inputs.debs;
  python = import ./python { inherit inputs buildRoot roots version rev; };
  go = import ./go { inherit inputs buildRoot roots; };
  images = import ./images { inherit buildRoot roots go; };
  kernel = import ../kernel { inherit buildRoot roots; };
  modules = import ../modules { inherit inputs buildRoot roots python kernel version rev; };
  pxe = python.program "pxe" "talos.provision.pxe.main" [ "TALOS_PXE_ROOT=${roots.vm}" ] [ ];
  discovery = python.program "discovery" "talos.discovery.main" [ ] [ ];
  vms = import ../nixos-tests {
    inherit buildRoot roots python;
    assets = {
      inherit (modules) initramfs squashfs;
      inherit (modules.media) disk-image iso netboot;
      inherit (kernel) kernel;
      cmdline = builtins.path { path = ../kernel/cmdline; name = "cmdline"; };
    };
  };
in
{
  packages = python.packages // {
    inherit (python) api talosctl workstation;
    inherit (modules) rootfs squashfs initramfs sbom size;
    inherit (modules.media) disk-image iso netboot;
    inherit (kernel) kernel init;
    images = images.cluster;
    inherit (go) kubernetes etcd;
    root-vm = roots.vm;
    root-peers = roots.peers;
    kernel-config = kernel.config;
    kernel-hardening = kernel.hardening;
    image = modules.squashfs;
    default = modules.squashfs;
  };
  checks = import ./checks { inherit buildRoot roots python; } // { kernel-hardening = kernel.hardening; } // vms.checks;
  apps = vms.apps // {
    discovery = { type = "app"; program = "${discovery}/bin/discovery"; };
    pxe = { type = "app"; program = "${pxe}/bin/pxe"; };
    talosctl = { type = "app"; program = "${python.talosctl}/bin/talosctl"; };
  };
}
