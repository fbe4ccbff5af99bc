# What Kubernetes' conformance tests start in pods, under the names of test/utils/image/manifest.go. Upstream composes
# these images from Alpine's or Debian's packages and programs of its own source; here busybox stands in for Alpine's.
{ inputs, roots, go, image, folder, applets, source, tagOf }:
let
  programs = go.kubernetes-e2e;
  registry = "registry.k8s.io/e2e-test-images";

  system = {
    "/usr/bin" = { tree = applets; };
    "/usr/bin/busybox" = inputs.busybox;
    # busybox's shell prefers its own programs to others of their names, and loses variables such as `data-1`.
    "/usr/bin/sh" = { link = "bash"; };
    "/bin" = { link = "usr/bin"; };
    "/tmp" = { folder = "1777"; };
    "/root" = { folder = "0700"; };
    "/etc/passwd" = { text = "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"; };
    "/etc/group" = { text = "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n"; };
    # Names of /etc/hosts, which the kubelet writes, before those of DNS.
    "/etc/nsswitch.conf" = { text = "hosts: files dns\n"; };
  };

  ofTests = name: tag: more: image ({
    name = "${registry}/${name}";
    inherit tag;
    packages = roots.e2e;
    user = "0:0";
  } // more // { debian = [ "usr/bin/bash" ] ++ (more.debian or [ ]); });

  agnhost = {
    files = system // {
      "/agnhost" = "${programs.agnhost}/bin/agnhost";
      "/agnhost-2" = { link = "agnhost"; };
      "/localhost.crt" = source "test/images/agnhost/porter/localhost.crt";
      "/localhost.key" = source "test/images/agnhost/porter/localhost.key";
      "/uploads" = { folder = "0755"; };
      "/usr/bin/nc" = { link = "nc.openbsd"; };
    };
    debian = [ "usr/bin/curl" "usr/bin/dig" "usr/bin/getent" "usr/bin/ip" "usr/bin/nc.openbsd" ];
    entrypoint = [ "/agnhost" ];
    arguments = [ "pause" ];
  };
  # It serves the files of its working folder.
  withPicture = name: tag: ofTests name tag (agnhost // {
    files = agnhost.files // {
      "/${name}.jpg" = source "test/images/${name}/html/${name}.jpg";
      # A spec that mounts the image looks for the name of upstream's base in it.
      "/etc/os-release" = { text = "# stands in for an image of Alpine Linux\n"; };
      "/data.json" = source "test/images/${name}/html/data.json";
    };
    arguments = [ "test-webserver" ];
  });

  # By its path the shell is busybox's, as a spec compares what it writes, and by its name bash, as others look for
  # variables such as `data-1`: upstream's busybox has both, Debian's loses the variables.
  busybox = { files = system // { "/bin" = { tree = applets; }; }; entrypoint = [ ]; arguments = [ "sh" ]; };

  nginx = {
    files = system // {
      "/etc/nginx/nginx.conf" = {
        text = ''
          daemon off;
          user root;
          pid /run/nginx.pid;
          error_log stderr;
          events { }
          http {
            access_log off;
            server { listen 80; root /usr/share/nginx/html; }
          }
        '';
      };
      "/usr/share/nginx/html/index.html" = { text = "<h1>Welcome to nginx!</h1>\n"; };
      "/run" = { folder = "0755"; };
      "/var/lib/nginx" = { folder = "0755"; };
      "/var/log/nginx" = { folder = "0755"; };
    };
    debian = [ "usr/sbin/nginx" ];
    entrypoint = [ "nginx" ];
  };
in
folder "e2e" [
  (ofTests "agnhost" "2.66.1" agnhost)
  # Deployments are updated from it.
  (ofTests "agnhost" "2.55" agnhost)
  (ofTests "busybox" "1.37.0-2" busybox)
  (ofTests "nginx" "1.27.0-2" nginx)
  (ofTests "nginx" "1.28.0-2" nginx)
  (ofTests "nonroot" "1.5" (busybox // { user = "1234"; }))
  # Its program shows whether a container's process gains the privileges of a set-uid file.
  (ofTests "nonewprivs" "1.4" {
    files = system // { "/usr/local/bin/nnp" = { setuid = "${programs.nnp}/bin/nnp"; }; };
    entrypoint = [ ];
    arguments = [ "nnp" ];
  })
  (ofTests "glibc-dns-testing" "2.1.1" (busybox // { debian = [ "usr/bin/dig" "usr/bin/getent" ]; }))
  (ofTests "sample-apiserver" "1.29.2" {
    files = system // { "/sample-apiserver" = "${programs.sample-apiserver}/bin/sample-apiserver"; };
    entrypoint = [ "/sample-apiserver" ];
  })
  (withPicture "kitten" "1.8")
  (withPicture "nautilus" "1.8")
  # Beside sample-apiserver, in a pod that has no volume for it.
  (image {
    name = "registry.k8s.io/etcd";
    tag = "3.7.0-0";
    files = { "/usr/local/bin/etcd" = "${go.etcd.etcd}/bin/etcd"; };
    entrypoint = [ "etcd" ];
    user = "0:0";
  })
  # What `talosctl conformance kubernetes` runs.
  (image {
    name = "registry.k8s.io/conformance";
    tag = tagOf "kubernetes";
    files = {
      "/tmp" = { folder = "1777"; };
      "/usr/local/bin/e2e.test" = "${programs.e2e}/bin/e2e.test";
      "/usr/local/bin/ginkgo" = "${programs.ginkgo}/bin/ginkgo";
      "/usr/local/bin/kubectl" = "${go.kubernetes.kubectl}/bin/kubectl";
      "/usr/local/bin/kubeconformance" = "${programs.gorunner}/bin/gorunner";
    };
    entrypoint = [ "kubeconformance" ];
    user = "0:0";
  })
]
