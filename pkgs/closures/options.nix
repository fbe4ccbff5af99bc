# Holds `lib.image`: which options it refuses, in which words, and what compositions share. Its value is a path.
{ modules }:
let
  inherit (modules) image problemsOf;
  platforms = import ../../modules/platforms.nix;

  refused = [
    { options = 3; error = "lib.image: 3 is not allowed; it takes a set of options"; }
    { options = { extension = [ ]; }; error = "lib.image: extension: there is no such option; known are config, extensions, imageCache, kernelArgs, kernelOptions, keys, platform, secureBoot, signatures, tracing"; }
    { options = { extensions = "x"; }; error = "lib.image: extensions: \"x\" is not allowed; it is a list of extensions: folders, or derivations such as packages.x86_64-linux.qemu-guest-agent"; }
    { options = { keys = [ ]; }; error = "lib.image: keys: [  ] is not allowed; it is a list, not empty, of files with public Ed25519 keys in PEM, as `nix run .#keygen` writes them"; }
    { options = { keys = [ ./options.nix ]; }; error = "lib.image: keys: ${toString ./options.nix} is not allowed; it is a list, not empty, of files with public Ed25519 keys in PEM, as `nix run .#keygen` writes them"; }
    { options = { kernelArgs = [ "quiet" "a b" ]; }; error = "lib.image: kernelArgs: \"a b\" is not allowed; it is a list of kernel arguments without blanks, quotes and $; talos.platform is the option platform"; }
    { options = { kernelArgs = [ "talos.platform=metal" ]; }; error = "lib.image: kernelArgs: \"talos.platform=metal\" is not allowed; it is a list of kernel arguments without blanks, quotes and $; talos.platform is the option platform"; }
    { options = { kernelOptions = [ ]; }; error = "lib.image: kernelOptions: [  ] is not allowed; it is a set such as { USB4 = true; }"; }
    { options = { kernelOptions.CONFIG_USB = true; }; error = "lib.image: kernelOptions.CONFIG_USB: true is not allowed; it is named without CONFIG_"; }
    { options = { kernelOptions.USB4 = "m"; }; error = "lib.image: kernelOptions.USB4: \"m\" is not allowed; it is true or false, a number or a text; there are no modules"; }
    { options = { kernelOptions.MODULES = true; }; error = "lib.image: kernelOptions.MODULES: true is not allowed; it is set to n by kernel/config/hardening.config or clang.config, and can't be changed"; }
    { options = { imageCache = "cache"; }; error = "lib.image: imageCache: \"cache\" is not allowed; it is a folder that `talosctl image cache-create --layout=flat` has made"; }
    { options = { config = 3; }; error = "lib.image: config: 3 is not allowed; it is a file with a machine config, or documents of one"; }
    { options = { keys = [ key ]; signatures = 2; }; error = "lib.image: signatures: 2 is not allowed; it is a number from 1 to that of the keys"; }
    { options = { signatures = 1; }; error = "lib.image: signatures: 1 is not allowed; it is a number from 1 to that of the keys"; }
    { options = { signatures = "2"; }; error = "lib.image: signatures: \"2\" is not allowed; it is a number from 1 to that of the keys"; }
    { options = { platform = "vax"; }; error = "lib.image: platform: \"vax\" is not allowed; it is one of ${builtins.concatStringsSep ", " (map builtins.toJSON (builtins.attrNames platforms))}"; }
    { options = { secureBoot = ./options.nix; }; error = "lib.image: secureBoot: ${toString ./options.nix} is not allowed; it is a set such as { certificate = ./uki-signing-cert.pem; }"; }
    { options = { secureBoot.db = variable; }; error = "lib.image: secureBoot: { db = …; } is not allowed; it is a set such as { certificate = ./uki-signing-cert.pem; }"; }
    { options = { secureBoot = { inherit certificate; key = variable; }; }; error = "lib.image: secureBoot.key: there is no such option; known are certificate, db, kek, pcrKey, pk"; }
    { options = { secureBoot.certificate = ./options.nix; }; error = "lib.image: secureBoot.certificate: ${toString ./options.nix} is not allowed; it is a file with a certificate in PEM, such as uki-signing-cert.pem, and no private key"; }
    { options = { secureBoot.certificate = ./none/uki-signing-cert.der; }; error = "lib.image: secureBoot.certificate: ${toString ./none/uki-signing-cert.der} is not allowed; it is a file with a certificate in PEM, such as uki-signing-cert.pem, and no private key"; }
    { options = { secureBoot = { inherit certificate; pcrKey = ./options.nix; }; }; error = "lib.image: secureBoot.pcrKey: ${toString ./options.nix} is not allowed; it is a file with the public half of pcr-signing-key.pem in PEM"; }
    { options = { secureBoot = { inherit certificate; pk = key; }; }; error = "lib.image: secureBoot.pk: \"${key}\" is not allowed; it is a file NAME.auth of `talosctl gen secureboot database`"; }
    { options = { tracing = "kprobes"; }; error = "lib.image: tracing: \"kprobes\" is not allowed; it is true for a kernel that programs in pods may trace, or false"; }
  ];
  wrong = builtins.filter (each: problemsOf each.options != [ each.error ]) refused;

  plain = image { };
  key = builtins.toFile "key.pub" "-----BEGIN PUBLIC KEY-----\n";
  certificate = builtins.toFile "certificate.pem" "-----BEGIN CERTIFICATE-----\n";
  variable = builtins.toFile "any.auth" "";
  keyed = image { keys = [ key ]; };
  owned = image { secureBoot = { inherit certificate; pcrKey = key; pk = variable; kek = variable; db = variable; }; };
  twice = image { keys = [ key (builtins.toFile "other.pub" "-----BEGIN PUBLIC KEY-----\n\n") ]; signatures = 2; };
  argued = image { kernelArgs = [ "talos.hostname=box" ]; };
  elsewhere = image { platform = "nocloud"; };
  cached = image { imageCache = ./options.nix; };
  configured = image { config = ./options.nix; };
  other = image { kernelOptions = { USB4 = true; PANIC_TIMEOUT = 5; }; };
  traced = image { tracing = true; };

  same = part: a: b: a.${part}.drvPath == b.${part}.drvPath;
in
assert wrong == [ ] || throw "options.nix: ${builtins.toJSON (map (each: problemsOf each.options) wrong)}";
assert same "squashfs" keyed plain && same "kernel" keyed plain && !(same "initramfs" keyed plain);
assert same "squashfs" twice plain && !(same "release" twice keyed);
assert same "kernel" argued plain && !(same "squashfs" argued plain) && !(same "iso" argued plain);
assert same "kernel" elsewhere plain && !(same "iso" elsewhere plain);
assert same "kernel" configured plain && !(same "squashfs" configured plain);
assert same "squashfs" cached plain && same "netboot" cached plain && !(same "iso" cached plain);
assert !(same "kernel" traced plain) && !(same "squashfs" traced plain) && !(same "iso" traced plain);
assert same "uki" owned plain && same "release" owned plain && owned.sign.drvPath != "" && !(plain ? sign);
assert same "initramfs" other plain && !(same "kernel" other plain) && !(same "release" other plain);
./options.nix
