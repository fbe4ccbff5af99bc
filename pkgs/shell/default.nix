# `nix develop` and `nix fmt`: the workstation's interpreter with every wheel on the PATH, and the formatter in it.
{ buildRoot, roots, workstation }:
let
  build = buildRoot.runIn roots.build;

  # For any host: nothing of its libc is loaded. Nix runs it to learn a shell's environment.
  bash = build {
    name = "bash";
    command = [ "python3.13" ./make_bash.py ];
    debian = roots.shell;
  };

  programs = build {
    name = "talos-shell-programs";
    command = [ "python3.13" ./make_programs.py ];
    inherit bash workstation;
  };
in
{
  shell = derivation {
    name = "talos-shell";
    system = "x86_64-linux";
    outputs = [ "out" ]; # `nix develop` looks for them in the environment
    builder = "${bash}/bin/bash";
    args = [ "-c" "echo 'for: nix develop' >$out" ];
    PATH = "${programs}/bin:${workstation}/bin:${workstation}/sbin";
    shellHook = builtins.readFile ./hook.sh;
  };

  formatter = build {
    name = "ruff-format";
    command = [ "python3.13" ./make_formatter.py ];
    inherit bash workstation;
  };
}
