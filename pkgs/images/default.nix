# Container images as OCI archives under their public names, of one layer each. A mirror serves them to the nodes
# of local clusters (talos.provision.mirror); nothing in a node knows where an image comes from.
{ buildRoot, roots, go }:
let
  build = buildRoot.runIn roots.build;

  # `files`: what is where in the image. `user`: the numbers that its program runs with.
  image = { name, tag, files, entrypoint, user }: build {
    name = "${baseNameOf name}-${tag}.tar";
    command = [ "python3.13" ./oci.py ];
    reference = "${name}:${tag}";
    files = builtins.toJSON files;
    config = builtins.toJSON {
      Entrypoint = entrypoint;
      Env = [ "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" ];
      User = user;
      WorkingDir = "/";
    };
  };

  programs = set: names: builtins.listToAttrs (map (name: { name = "/usr/local/bin/${name}"; value = "${set.${name}}/bin/${name}"; }) names);

  # The folder that `talosctl cluster create --images` takes.
  folder = name: archives: build {
    name = "images-${name}";
    command = [ "python3.13" ./folder.py ];
    inherit archives;
  };
in
rec {
  etcd = image {
    name = "registry.k8s.io/etcd";
    tag = "v3.7.1";
    files = programs go.etcd [ "etcd" "etcdctl" "etcdutl" ];
    entrypoint = [ "etcd" ];
    # Who owns /var/lib/etcd on a node.
    user = "60:60";
  };

  cluster = folder "cluster" [ etcd ];
}
