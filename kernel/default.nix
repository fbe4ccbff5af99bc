# The kernel and the early init. Their inputs hardly ever change: a build takes the better part of an hour.
{ buildRoot, roots }:
let
  # Only the script that runs and what it imports: an edit of the other must not cost a kernel's build.
  scripts = script: builtins.path {
    path = ./build;
    name = "kernel-build";
    filter = path: _: builtins.elem (baseNameOf path) [ script "tree.py" ];
  };
  build = name: script: attributes: buildRoot.runIn roots.kernel ({
    inherit name;
    command = [ "python3.13" "${scripts script}/${script}" ];
    source = roots.kernel-source;
  } // attributes);

  purposes = [ "base" "x86_64" "guests" "management" "storage" "filesystems" "network" "nics" "netfilter" "containers" "hardening" "boot" "clang" ];
  fragment = purpose: builtins.path { path = ./config + "/${purpose}.config"; name = "${purpose}.config"; };
  linesIn = file: builtins.filter builtins.isString (builtins.split "\n" (builtins.readFile file));
  linesOf = purpose: linesIn (./config + "/${purpose}.config");
  parse = builtins.match "CONFIG_([A-Za-z0-9_]+)=(.*)";
  hardened = [ "hardening" "clang" ];
  valuesOf = lines: builtins.listToAttrs (map (found: { name = builtins.head found; value = builtins.elemAt found 1; })
    (builtins.filter (found: found != null) (map parse lines)));

  # A line of a fragment; a symbol that is off is not in the configuration.
  format = name: value: "CONFIG_${name}=" + (
    if builtins.isBool value then (if value then "y" else "n")
    else if builtins.isInt value || builtins.match "0x[0-9a-fA-F]+" value != null then toString value
    else "\"${value}\""
  );

  # The fragments with other values of some symbols.
  fragmentsWith = options:
    let
      isOther = line: let found = parse line; in found != null && options ? ${builtins.head found};
      without = purpose: builtins.toFile "${purpose}.config" (builtins.concatStringsSep "\n" (builtins.filter (line: !isOther line) (linesOf purpose)));
      change = purpose: if builtins.any isOther (linesOf purpose) then without purpose else fragment purpose;
      own = builtins.concatStringsSep "\n" (builtins.attrValues (builtins.mapAttrs format options));
    in
    map change purposes ++ (if options == { } then [ ] else [ (builtins.toFile "own.config" "${own}\n") ]);
in
rec {
  inherit (withOptions { }) config kernel;

  # A kernel with these values of symbols beside or instead of those in ./config.
  withOptions = options: rec {
    config = build "kernel-config" "configure.py" { fragments = fragmentsWith options; };
    kernel = build "kernel" "compile.py" { inherit config; };
  };

  # The symbols of a kernel that programs in pods may trace, and its arguments.
  tracing = {
    options = builtins.mapAttrs (_: value: value == "y") (valuesOf (linesIn ./options/tracing.config));
    cmdline = builtins.replaceStrings [ "lockdown=confidentiality" ] [ "lockdown=integrity" ] (builtins.readFile ./cmdline);
  };

  # What `kernelOptions` does not change: how the kernel is protected, by symbol.
  lockedOptions = valuesOf (builtins.concatMap linesOf hardened);
  lockedBy = "kernel/config/hardening.config or clang.config";

  # The score of configuration, arguments and sysctls, and whether every failing row has its reason.
  hardening = buildRoot.runIn roots.build {
    name = "kernel-hardening";
    command = [ "python3.13" ./hardening/check_hardening.py ];
    PYTHONPATH = "${roots.kernel-hardening}/usr/lib/python3/dist-packages";
    inherit config;
    cmdline = ./cmdline;
    sysctl = ./sysctl.conf;
    accepted = ./accepted.toml;
  };

  init = buildRoot.runIn roots.cc {
    name = "early-init";
    command = [ "gcc" "-specs" "/usr/lib/x86_64-linux-musl/musl-gcc.specs" "-static" "-O3" "-Wall" "-Wextra" "-Werror" "-s" "-idirafter" "/usr/include" "-idirafter"
      "/usr/include/x86_64-linux-gnu" "-o" (builtins.placeholder "out") "${./init}/init.c" "${./init}/console.c" "${./init}/starts.c" "${./init}/verity.c" ];
  };
}
