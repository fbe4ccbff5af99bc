# What packages and apps are, for `nix search`, `nix flake show` and profiles: `meta`. `layers` has the daemons.
{ layers }:
let
  programs = {
    kubectl = "kubectl";
    talosctl = "talosctl";
    workstation = "python3.13";
  };

  descriptions = builtins.mapAttrs (_: layer: layer.about) layers // {
    airgap = "writes what a site without a network needs into one folder";
    amd-ucode = "a system extension: microcode for AMD's processors";
    api = "the Python modules of the API's .proto files";
    cni = "the CNI plugin that is no package of Debian's";
    containerd = "containerd and its shim, compiled from locked modules";
    contour = "an ingress controller, compiled from locked modules, for tests";
    coredns = "CoreDNS, compiled from locked modules";
    default = "the system image, a squashfs";
    debug-image = "the container image for `talosctl debug`: a shell and tools for networks and processes";
    discovery = "the discovery server of a cluster's members";
    disk-image = "an installed system as a disk, raw and qcow2";
    etcd = "etcd, compiled from locked modules";
    extended = "a system image with two extensions, for tests";
    flannel = "flannel, compiled from locked modules";
    grpc-interop = "gRPC's own client and server of its interoperability tests";
    h2spec = "the suite that judges the daemons' HTTP/2";
    image = "the system image, a squashfs";
    image-cache = "the container images of Kubernetes as a cache for an ISO";
    images = "the container images of local clusters without Kubernetes";
    images-all = "the container images of Kubernetes, etcd, CoreDNS, flannel and kube-network-policies";
    images-e2e = "the container images that the conformance tests of Kubernetes start";
    images-previous = "the container images of Kubernetes' minor version before";
    images-workloads = "the container images and manifests of what people install on a cluster, for tests";
    init = "the early init, which maps and mounts the system image";
    initramfs = "what the kernel unpacks: early init and system image";
    intel-ucode = "a system extension: microcode for Intel's processors";
    iscsi-tools = "a system extension: iSCSI's daemon and client";
    iso = "an ISO for BIOS and UEFI";
    kernel = "the kernel, hardened and monolithic";
    kernel-config = "the kernel's configuration";
    kernel-source = "the kernel's source, as Debian packs it";
    kernel-hardening = "the kernel's score by kernel-hardening-checker";
    keygen = "makes a key that releases are signed with";
    kms = "a key management service for encrypted volumes, to try them with";
    kubectl = "the client of Kubernetes";
    kubernetes = "Kubernetes, compiled from locked modules";
    kubernetes-e2e = "the conformance tests of Kubernetes, and what their pods run";
    licenses = "the system's bill of materials with the texts of the licences";
    netboot = "the folder that machines boot from over a network";
    metallb = "addresses for services, compiled from locked modules, for tests";
    network-policies = "kube-network-policies, compiled from locked modules";
    pxe = "the boot server: DHCP, TFTP and HTTP for machines without a disk";
    qemu-guest-agent = "a system extension: QEMU's guest agent";
    release = "what nodes are upgraded with, unsigned";
    root-peers = "the servers that tests let nodes talk to";
    root-uki = "systemd's ukify, its stubs and boot loader";
    root-vm = "QEMU and firmware";
    rootfs = "the system image as a tree";
    run-vm = "boots a machine from the ISO";
    runc = "runc, compiled from locked modules with a C compiler";
    sbom = "the system's bill of materials, SPDX";
    sbom-images = "the bill of materials of Kubernetes' images, with licences";
    siderolink = "a management service for SideroLink, to try it with";
    sign = "signs a release";
    sign-disk = "makes a disk image start under Secure Boot, with the owner's key";
    sign-efi = "signs an EFI program for Secure Boot";
    sign-iso = "makes an ISO start under Secure Boot, with the owner's key";
    sign-netboot = "makes what UEFI boots from HTTP under Secure Boot, with the owner's key";
    sign-release = "makes a release start under Secure Boot, with the owner's key";
    site = "the documentation as a static site with a search";
    size = "what the system image is made of, largest first";
    squashfs = "the system image, a squashfs";
    stamp = "version, commit and release keys of an image";
    talosctl = "the client of the machine API";
    talosctl-image = "the container image of the client";
    talosctl-man-pages = "the client's manual pages, one a command";
    talosctl-portable = "the client as one file for any x86_64 Linux";
    talosctl-pyz = "the client as one file for Python 3.13 on any system";
    uki = "a Unified Kernel Image for UEFI and systemd-boot, unsigned";
    upgrade-controller = "keeps a cluster's nodes at the release of a channel";
    upgrade-controller-image = "the container image of the upgrade controller";
    util-linux-tools = "a system extension: fstrim, nsenter, lsblk and others for drivers of storage";
    workloads = "controllers of storage and metrics-server, compiled from locked modules, for tests";
    workstation = "Python with all wheels, for tests and linters";
  };

  ofTest = builtins.match "(vm|driver)-(.*)";
in
rec {
  describe = name: descriptions.${name} or (throw "pkgs/descriptions.nix: what is ${name}?");

  package = name: value: value // {
    meta = { description = describe name; } // (if programs ? ${name} then { mainProgram = programs.${name}; } else { });
  };

  app = name: program: {
    type = "app";
    inherit program;
    meta.description =
      let found = ofTest name;
      in
      if found == null then describe name
      else if builtins.head found == "vm" then "the test ${builtins.elemAt found 1} on virtual machines, outside of the build sandbox"
      else "the machines of the test ${builtins.elemAt found 1}, for a person";
  };
}
