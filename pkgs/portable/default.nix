# talosctl and the discovery server, each as one file for any x86_64 Linux: a shell script with the program, its interpreter
# and libraries behind it. And talosctl for other systems, in pure Python.
{ buildRoot, roots, busybox, python, discovery, version }:
let
  archive = builtins.path { path = ./.; name = "archive"; filter = path: _: baseNameOf path == "archive.py"; };

  make = { program, module, package, leave_out ? "" }: buildRoot.runIn roots.build {
    name = "${program}-linux-amd64";
    command = [ "python3.13" ./make.py ];
    PYTHONPATH = "${archive}:${builtins.path { path = ../../modules/rootfs; name = "elf"; filter = path: _: baseNameOf path == "elf.py"; }}";
    inherit version program module package leave_out;
    inherit (python) client;
    launcher = ./launch.py;
    start = ./start.sh;
  };

  # gRPC's own core is what servers are made with.
  talosctl = package: make { program = "talosctl"; module = "talos.talosctl.main"; inherit package; leave_out = "grpc grpcio-*.dist-info"; };

  # Beside it Python 3.13 and the packages of `required` are needed, which are compiled for each system; cffi comes with
  # cryptography. D-Bus, udev and OpenSSL's other binding are for nodes.
  anywhere = package: buildRoot.runIn roots.build {
    name = "talosctl.pyz";
    command = [ "python3.13" ./make_pyz.py ];
    PYTHONPATH = archive;
    inherit version package;
    inherit (python) client;
    required = "cryptography=cryptography pyrage=pyrage";
    leave_out = "grpc grpcio-*.dist-info OpenSSL pyOpenSSL-* jeepney jeepney-* pyudev pyudev-*";
    start = ./start_pyz.py;
  };

  bare = derivation {
    name = "root-bare";
    system = "x86_64-linux";
    builder = busybox;
    args = [ "sh" ./make_root.sh ];
    inherit busybox;
  };
in
{
  file = talosctl python.talosctl;
  pyz = anywhere python.talosctl;
  unstamped = anywhere python.unstamped;
  discovery = make { program = "discovery"; module = "talos.discovery.main"; package = discovery; };

  check = buildRoot.runIn bare {
    name = "check-portable";
    command = [ "sh" ./check.sh ];
    # Without the commit, so that a commit is no reason to repeat this.
    portable = talosctl python.unstamped;
    inherit version;
  };
}
