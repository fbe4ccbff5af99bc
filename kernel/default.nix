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
in
rec {
  config = build "kernel-config" "configure.py" {
    fragments = map (purpose: builtins.path { path = ./config + "/${purpose}.config"; name = "${purpose}.config"; })
      [ "base" "x86_64" "storage" "filesystems" "network" "netfilter" "containers" "hardening" "boot" "clang" ];
  };

  kernel = build "kernel" "compile.py" { inherit config; };

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
      "/usr/include/x86_64-linux-gnu" "-o" (builtins.placeholder "out") "${./init}/init.c" "${./init}/sha256.c" ];
  };
}
