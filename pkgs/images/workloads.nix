# What people install on a cluster (docs/workloads.md), for tests: images under the names that its own
# manifests have, and these manifests.
{ inputs, buildRoot, roots, go, wheels, image, folder, member }:
let
  spec = builtins.fromTOML (builtins.readFile ../roots.toml);
  versionOf = set: path: builtins.elemAt (builtins.match ".+@(.+)" (builtins.head (builtins.filter (name: builtins.match "${path}@.+" name != null) spec.go.sets.${set}.modules))) 0;

  # `folder` is where its manifest looks for it, which need not be on the PATH.
  programOf = { set, folder ? "/usr/bin" }: program: name: module: image {
    inherit name;
    tag = versionOf set module;
    files = { "${folder}/${program}" = "${go.${set}.${program}}/bin/${program}"; };
    entrypoint = [ "${folder}/${program}" ];
    # As upstream's: metrics-server's manifest sets another one.
    user = "0:0";
  };
  program = programOf { set = "workloads"; };
  metallb = programOf { set = "metallb"; folder = ""; };
  file = name: module: path: member { set = "workloads"; inherit name module path; };
  sidecar = name: program name "registry.k8s.io/sig-storage/${name}";
  # The part of NFS-Ganesha that serves a folder. It names a library that is in a folder of its own, and is there once
  # the program runs.
  ganeshaPlugin = buildRoot.runIn roots.build {
    name = "libfsalvfs.so";
    command = [ "patchelf" "--remove-needed" "libganesha_nfsd.so.6.5" "--output" (builtins.placeholder "out") "${roots.nfs-server}/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so" ];
  };
in
folder "workloads" ([
  (program "metrics-server" "registry.k8s.io/metrics-server/metrics-server" "sigs.k8s.io/metrics-server")
  (program "local-path-provisioner" "docker.io/rancher/local-path-provisioner" "github.com/rancher/local-path-provisioner")
  (sidecar "csi-attacher" "github.com/kubernetes-csi/external-attacher/v4")
  (sidecar "csi-provisioner" "github.com/kubernetes-csi/external-provisioner/v6")
  (sidecar "csi-resizer" "github.com/kubernetes-csi/external-resizer/v2")
  (sidecar "csi-snapshotter" "github.com/kubernetes-csi/external-snapshotter/v8")
  (sidecar "snapshot-controller" "github.com/kubernetes-csi/external-snapshotter/v8")
  (metallb "controller" "quay.io/metallb/controller" "go.universe.tf/metallb")
  (metallb "speaker" "quay.io/metallb/speaker" "go.universe.tf/metallb")
  (programOf { set = "contour"; folder = "/bin"; } "contour" "ghcr.io/projectcontour/contour" "github.com/projectcontour/contour")
  # Contour's manifest names another release of the same minor version.
  (image {
    name = "docker.io/envoyproxy/envoy";
    tag = "v${builtins.elemAt (builtins.match ".+==(.+)" (builtins.head spec.wheels.sets.envoy.packages)) 0}";
    files = { "/usr/local/bin/envoy" = "${wheels.envoy}/site/envoy/_bin/envoy"; };
    # Its libraries.
    debian = map (name: "usr/lib/x86_64-linux-gnu/${name}") [ "libc.so.6" "libdl.so.2" "libm.so.6" "libpthread.so.0" "librt.so.1" ];
    entrypoint = [ "envoy" ];
    user = "0:0";
  })
  # NFS-Ganesha, Debian's: a server of NFS for tests.
  (image {
    name = "registry.example.org/nfs-server";
    tag = "1.0.0";
    files = {
      "/usr/bin/ganesha.nfsd" = "${roots.nfs-server}/usr/bin/ganesha.nfsd";
      "/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so" = ganeshaPlugin;
      "/usr/lib/x86_64-linux-gnu/libnfsidmap/nsswitch.so" = "${roots.nfs-server}/usr/lib/x86_64-linux-gnu/libnfsidmap/nsswitch.so";
      "/etc/mtab" = { link = "../proc/self/mounts"; };
      "/etc/netconfig" = "${roots.kubelet}/etc/netconfig";
      "/etc/passwd" = { text = "root:x:0:0:root:/root:/sbin/nologin\n"; };
      "/etc/group" = { text = "root:x:0:\n"; };
      "/var/lib/nfs/ganesha" = { folder = "755"; };
      "/tmp" = { folder = "1777"; };
    };
    debian = [ "usr/lib/ganesha/libganesha_nfsd.so.6.5" ];
    packages = roots.nfs-server;
    entrypoint = [ "ganesha.nfsd" "-F" "-L" "STDOUT" "-p" "/tmp/pid" ];
    user = "0:0";
  })
  # The driver of the tests, which is Python.
  (image {
    name = "registry.example.org/csi-driver";
    tag = "1.0.0";
    files = {
      "/usr/lib/python3.13" = { tree = "${roots.workstation}/usr/lib/python3.13"; };
      "/usr/lib/driver/driver.py" = ../../tests/kubernetes/workloads/driver.py;
      "/usr/lib/driver/csi.proto" = file "csi.proto" "github.com/container-storage-interface/spec" "csi.proto";
      "/usr/lib/driver/registration.proto" = member { set = "kubernetes"; module = "k8s.io/kubelet"; path = "pkg/apis/pluginregistration/v1/api.proto"; };
      "/usr/lib/driver/google" = { tree = "${wheels.image}/site/google"; };
      "/usr/lib/driver/grpc" = { tree = "${wheels.client}/site/grpc"; };
      "/usr/lib/driver/grpc_tools" = { tree = "${wheels.build}/site/grpc_tools"; };
      "/usr/lib/driver/typing_extensions.py" = "${wheels.client}/site/typing_extensions.py";
    };
    debian = [ "usr/bin/python3.13" ];
    packages = roots.workstation;
    entrypoint = [ "python3.13" "-B" "/usr/lib/driver/driver.py" ];
    user = "0:0";
  })
  # What puts flannel's plugin into a node's folder, where a network is installed by its own manifest.
  (image {
    name = "registry.example.org/flannel-cni-plugin";
    tag = "v0.9.1";
    files = { "/flannel" = "${go.cni.flannel}/bin/flannel"; "/bin/busybox" = inputs.busybox; "/bin/cp" = { link = "busybox"; }; };
    entrypoint = [ "cp" ];
    user = "0:0";
  })
  (member { set = "flannel"; module = "github.com/flannel-io/flannel"; path = "Documentation/kube-flannel.yml"; name = "kube-flannel.yaml"; })
  (member { set = "network-policies"; module = "sigs.k8s.io/kube-network-policies"; path = "install.yaml"; name = "kube-network-policies.yaml"; })
  (member { set = "metallb"; module = "go.universe.tf/metallb"; path = "config/manifests/metallb-native.yaml"; name = "metallb.yaml"; })
  (member { set = "contour"; module = "github.com/projectcontour/contour"; path = "examples/render/contour.yaml"; })
  (file "attacher-rbac.yaml" "github.com/kubernetes-csi/external-attacher/v4" "deploy/kubernetes/rbac.yaml")
  (file "provisioner-rbac.yaml" "github.com/kubernetes-csi/external-provisioner/v6" "deploy/kubernetes/rbac.yaml")
  (file "resizer-rbac.yaml" "github.com/kubernetes-csi/external-resizer/v2" "deploy/kubernetes/rbac.yaml")
  (file "snapshotter-rbac.yaml" "github.com/kubernetes-csi/external-snapshotter/v8" "deploy/kubernetes/csi-snapshotter/rbac-csi-snapshotter.yaml")
  (file "snapshot-controller-rbac.yaml" "github.com/kubernetes-csi/external-snapshotter/v8" "deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml")
  (file "snapshot-controller.yaml" "github.com/kubernetes-csi/external-snapshotter/v8" "deploy/kubernetes/snapshot-controller/setup-snapshot-controller.yaml")
  (file "local-path.yaml" "github.com/rancher/local-path-provisioner" "deploy/local-path-storage.yaml")
] ++ map (name: file "metrics-server-${name}.yaml" "sigs.k8s.io/metrics-server" "manifests/base/${name}.yaml") [ "apiservice" "deployment" "rbac" "service" ]
++ map (name: file "crd-${name}.yaml" "github.com/kubernetes-csi/external-snapshotter/client/v8" "config/crd/${name}.yaml") [
  "groupsnapshot.storage.k8s.io_volumegroupsnapshotclasses"
  "groupsnapshot.storage.k8s.io_volumegroupsnapshotcontents"
  "groupsnapshot.storage.k8s.io_volumegroupsnapshots"
  "snapshot.storage.k8s.io_volumesnapshotclasses"
  "snapshot.storage.k8s.io_volumesnapshotcontents"
  "snapshot.storage.k8s.io_volumesnapshots"
])
