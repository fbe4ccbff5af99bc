# talosctl as one file for any x86_64 Linux: a shell script with the client, its interpreter and libraries behind it.
{ buildRoot, roots, busybox, python, version }:
let
  # Without the commit for the check, so that a commit is no reason to repeat it.
  make = talosctl: buildRoot.runIn roots.build {
    name = "talosctl-linux-amd64";
    command = [ "python3.13" ./make.py ];
    PYTHONPATH = builtins.path { path = ../../modules/rootfs; name = "elf"; filter = path: _: baseNameOf path == "elf.py"; };
    inherit version talosctl;
    inherit (python) client;
    launcher = ./launch.py;
    start = ./start.sh;
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
  file = make python.talosctl;

  check = buildRoot.runIn bare {
    name = "check-portable";
    command = [ "sh" ./check.sh ];
    portable = make python.unstamped;
    inherit version;
  };
}
