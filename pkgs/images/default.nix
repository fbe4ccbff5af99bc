# Container images as OCI archives under their public names, of one layer each. A mirror serves them to the nodes
# of local clusters (talos.provision.mirror); nothing in a node depends on where an image comes from.
{ inputs, buildRoot, roots, go, wheels, base, upgrade-controller, talosctl, version }:
let
  build = buildRoot.runIn roots.build;

  # `files`: what is where in the image, also whole folders. `debian`: programs from `packages`, those of the node image.
  # Both get the libraries that they need. `user`: the numbers that its program runs with; `arguments`: what a pod replaces.
  image = { name, tag, files, entrypoint, user, arguments ? [ ], debian ? [ ], packages ? roots.image }: build {
    name = "${baseNameOf name}-${tag}.tar";
    command = [ "python3.13" ./oci.py ];
    PYTHONPATH = builtins.path { path = ../../modules/rootfs; name = "elf"; filter = path: _: baseNameOf path == "elf.py"; };
    reference = "${name}:${tag}";
    files = builtins.toJSON files;
    inherit debian packages;
    config = builtins.toJSON ((if arguments == [ ] then { } else { Cmd = arguments; }) // {
      Entrypoint = entrypoint;
      Env = [ "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" ];
      User = user;
      WorkingDir = "/";
    });
  };

  programs = set: names: builtins.listToAttrs (map (name: { name = "/usr/local/bin/${name}"; value = "${set.${name}}/bin/${name}"; }) names);

  linksTo = target: names: builtins.listToAttrs (map (name: { name = "/usr/sbin/${name}"; value = { link = target; }; }) names);

  # The folder that `talosctl cluster create --images` takes.
  folder = name: archives: build {
    name = "images-${name}";
    command = [ "python3.13" ./folder.py ];
    inherit archives;
  };

  versions = (builtins.fromTOML (builtins.readFile ../roots.toml)).go.sets;
  tagOf = set: builtins.elemAt (builtins.match ".+@(.+)" (builtins.head versions.${set}.modules)) 0;

  # The images of a set of Kubernetes' programs.
  programImages = set:
    let
      program = name: {
        name = "registry.k8s.io/${name}";
        tag = tagOf set;
        files = programs go.${set} [ name ];
        entrypoint = [ name ];
        user = "65532:65532";
      };
    in
    {
      kube-apiserver = image (program "kube-apiserver");
      kube-controller-manager = image (program "kube-controller-manager");
      kube-scheduler = image (program "kube-scheduler");

      # Both set the rules of services with nft, as root.
      kube-proxy = image (program "kube-proxy" // {
        # Without names nft lists numbers: a kube-proxy that starts again would take its elements for foreign ones,
        # and remove the services that it has just set.
        files = programs go.${set} [ "kube-proxy" ] // { "/etc/protocols" = ./protocols; };
        debian = [ "usr/sbin/nft" ];
        user = "0:0";
      });

      # It makes, checks, grows and mounts volumes with programs of its image.
      kubelet = image (program "kubelet" // {
        name = "ghcr.io/siderolabs/kubelet";
        files = programs go.${set} [ "kubelet" ] // linksTo "mke2fs" [ "mkfs.ext2" "mkfs.ext3" "mkfs.ext4" ]
          // linksTo "e2fsck" [ "fsck.ext2" "fsck.ext3" "fsck.ext4" ]
          // linksTo "mount.nfs" [ "mount.nfs4" "umount.nfs" "umount.nfs4" ] // {
          "/etc/mke2fs.conf" = "${roots.kubelet}/etc/mke2fs.conf";
          "/etc/mtab" = { link = "../proc/self/mounts"; };
          "/etc/netconfig" = "${roots.kubelet}/etc/netconfig"; # protocols that mount.nfs may choose from
          # It looks up which ids are free for pods with user namespaces.
          "/etc/passwd" = { text = "root:x:0:0:root:/root:/sbin/nologin\n"; };
          "/etc/group" = { text = "root:x:0:\n"; };
        };
        debian = [ "usr/bin/mount" "usr/bin/umount" ] ++ map (name: "usr/sbin/${name}") [
          "blkid" "blockdev" "fsck" "losetup"
          "dumpe2fs" "e2fsck" "mke2fs" "resize2fs" "tune2fs"
          "mkfs.xfs" "xfs_growfs" "xfs_io" "xfs_repair"
          "mount.nfs"
        ];
        packages = roots.kubelet;
        user = "0:0";
      });
    };
  kubernetes = programImages "kubernetes";

  # A file of a locked module.
  member = { set, module, path, name ? baseNameOf path }:
    let found = builtins.head (builtins.filter (each: each.path == module) inputs.modules.${set});
    in build {
      inherit name;
      command = [ "python3.13" ./member.py ];
      archive = found.zip;
      member = "${module}@${found.version}/${path}";
    };

  # A file of Kubernetes' source.
  source = path: member { set = "kubernetes"; module = "k8s.io/kubernetes"; inherit path; };
in
rec {
  etcd = image {
    name = "registry.k8s.io/etcd";
    tag = tagOf "etcd";
    files = programs go.etcd [ "etcd" "etcdctl" "etcdutl" ];
    entrypoint = [ "etcd" ];
    # Who owns /var/lib/etcd on a node.
    user = "60:60";
  };

  flannel = image {
    name = "ghcr.io/siderolabs/flannel";
    tag = tagOf "flannel";
    files = {
      "/opt/bin/flanneld" = "${go.flannel.flanneld}/bin/flanneld";
      # Its manifest has a shell put the CNI configuration where the runtime looks for it.
      "/usr/bin/busybox" = inputs.busybox;
      "/usr/bin/sh" = { link = "busybox"; };
      "/usr/bin/cp" = { link = "busybox"; };
      "/usr/bin/sleep" = { link = "busybox"; };
      # It removes rules that an iptables of an earlier run may have left.
      "/usr/sbin/iptables" = { link = "xtables-nft-multi"; };
      "/usr/sbin/ip6tables" = { link = "xtables-nft-multi"; };
    };
    debian = [ "usr/sbin/nft" "usr/sbin/xtables-nft-multi" "usr/lib/x86_64-linux-gnu/xtables/libxt_comment.so" ];
    entrypoint = [ "/opt/bin/flanneld" ];
    user = "0:0";
  };

  # Beside flannel, under the name that upstream's image gives the program.
  network-policies = image {
    name = "registry.k8s.io/networking/kube-network-policies";
    tag = tagOf "network-policies";
    files = { "/bin/netpol" = "${go.network-policies.netpol}/bin/netpol"; };
    entrypoint = [ "/bin/netpol" ];
    user = "0:0";
  };

  coredns = image {
    name = "registry.k8s.io/coredns/coredns";
    tag = tagOf "coredns";
    files = { "/coredns" = "${go.coredns.coredns}/bin/coredns"; };
    entrypoint = [ "/coredns" ];
    user = "65532:65532";
  };

  # Upstream's source, from the module that has it; one static program.
  pause = image {
    name = "registry.k8s.io/pause";
    tag = "3.10.2";
    files = { "/pause" = pauseProgram; };
    entrypoint = [ "/pause" ];
    user = "65535:65535";
  };
  pauseProgram = buildRoot.runIn roots.cc {
    name = "pause";
    command = [ "gcc" "-specs" "/usr/lib/x86_64-linux-musl/musl-gcc.specs" "-static" "-Os" "-s" "-DVERSION=3.10.2" "-Wl,--build-id=none" "-o" (builtins.placeholder "out") (source "build/pause/linux/pause.c") ];
  };

  # Our own: programs of the workstation with the nodes' interpreter and wheels.
  ours = name: program: module: image {
    name = "ghcr.io/siderolabs/${name}";
    tag = version;
    files = {
      "/usr/lib/python3.13" = { tree = "${base}/usr/lib/python3.13"; };
      "/usr/lib/python3" = { tree = "${base}/usr/lib/python3"; };
      "/usr/lib/talos" = { tree = "${program}/lib"; };
      "/usr/lib/talos/pyrage" = { tree = "${wheels.client}/site/pyrage"; };
      "/usr/bin/start.py" = ./start.py;
      "/usr/share/zoneinfo" = { tree = "${roots.image}/usr/share/zoneinfo"; };
      "/etc/ssl/certs/ca-certificates.crt" = "${base}/etc/ssl/certs/ca-certificates.crt";
      "/usr/lib/ssl/cert.pem" = { link = "/etc/ssl/certs/ca-certificates.crt"; };
    };
    debian = [ "usr/bin/python3.13" ];
    entrypoint = [ "python3.13" "-ISB" "/usr/bin/start.py" module ];
    user = "65532:65532";
  };
  # For a cluster that keeps itself at the release of a channel, and for metrics of nodes.
  controller = ours "upgrade-controller" upgrade-controller "talos.upgrade_controller.main";
  client = ours "talosctl" talosctl "talos.talosctl.main";

  # What tests run in pods.
  busybox = image {
    name = "docker.io/library/busybox";
    tag = "1.37.0";
    files = { "/bin/busybox" = inputs.busybox; "/tmp" = { folder = "1777"; }; }
      // builtins.listToAttrs (map (name: { name = "/bin/${name}"; value = { link = "busybox"; }; })
      [ "cat" "dd" "echo" "env" "hostname" "httpd" "id" "ls" "mkdir" "nslookup" "rm" "sh" "sleep" "tar" "test" "touch" "wget" ]);
    entrypoint = [ "sh" ];
    user = "65532:65532";
  };

  # For `talosctl debug`. Where Debian's program has the name of one of busybox's, such as ip, it takes the place of the link.
  # The shell is bash, as busybox's prefers its own programs whatever the PATH is.
  debug = image {
    name = "ghcr.io/siderolabs/debug";
    tag = version;
    files = {
      "/usr/bin" = { tree = applets; };
      "/usr/bin/busybox" = inputs.busybox;
      "/usr/bin/sh" = { link = "bash"; };
      "/etc/ssl/certs/ca-certificates.crt" = "${base}/etc/ssl/certs/ca-certificates.crt";
      # tcpdump changes to its user before it writes: here to root, whose folders those of the node are.
      "/etc/passwd" = { text = "root:x:0:0:root:/root:/usr/bin/sh\ntcpdump:x:0:0:tcpdump:/root:/usr/bin/sh\n"; };
      # Names of routing tables and protocols.
      "/usr/share/iproute2" = { tree = "${roots.debug}/usr/share/iproute2"; };
      # Of terminals, for the shell's line editing.
      "/usr/share/terminfo" = { tree = "${roots.debug}/usr/share/terminfo"; };
      "/root" = { folder = "700"; };
      "/tmp" = { folder = "1777"; };
    };
    debian = map (name: "usr/bin/${name}") [ "bash" "curl" "ip" "ss" "strace" "tcpdump" ] ++ map (name: "usr/sbin/${name}") [ "bridge" "nft" "tc" ];
    packages = roots.debug;
    entrypoint = [ "bash" ];
    user = "0:0";
  };

  # A link for each program that busybox is.
  applets = build {
    name = "applets";
    command = [ "python3.13" ./applets.py ];
    inherit (inputs) busybox;
  };

  # What tests of nodes and of etcd need, without Kubernetes.
  cluster = folder "cluster" [ debug etcd ];
  all = folder "all" (builtins.sort (a: b: a.name < b.name) ([ busybox coredns debug etcd flannel network-policies pause ] ++ builtins.attrValues kubernetes));
  # What its conformance tests start in pods.
  e2e = import ./e2e.nix { inherit inputs roots go image folder applets source tagOf; };
  # What people install on a cluster, for tests.
  workloads = import ./workloads.nix { inherit inputs buildRoot roots go wheels image folder member; };
  # What Kubernetes is upgraded from in a test.
  previous = folder "previous" (builtins.attrValues (programImages "kubernetes-previous"));
}
