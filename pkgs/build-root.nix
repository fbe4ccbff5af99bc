# The one place where builds get their tools: Debian packages unpacked into a root, and a chroot into
# it inside the Nix sandbox, which allows that to its unprivileged user through a user namespace.
{ busybox }:
rec {
  # A root from .deb files. Maintainer scripts don't run.
  unpack = name: debs: derivation {
    name = "root-${name}";
    system = "x86_64-linux";
    builder = busybox;
    args = [ "sh" ./builders/unpack.sh ];
    inherit busybox debs;
  };

  # Runs `command` (an argv, found inside `root`) with the attributes as environment.
  runIn = root: { name, command, ... }@attributes: derivation (removeAttrs attributes [ "command" ] // {
    inherit name root busybox;
    system = "x86_64-linux";
    builder = busybox;
    args = [ "sh" ./builders/enter.sh ] ++ command;
    LC_ALL = "C.UTF-8";
    PYTHONHASHSEED = "0";
    PYTHONDONTWRITEBYTECODE = "1";
    SOURCE_DATE_EPOCH = "1";
  });
}
