{
  description = "An immutable operating system for Kubernetes with a Python user space";

  # No inputs: everything from outside is named in pkgs/locks and brought into the store by `make fetch`.
  outputs = { self }:
    let
      system = "x86_64-linux";
      pkgs = import ./pkgs {
        rev = self.rev or "dirty";
        time = toString (self.lastModified or 0);
        # The public half of a machine's development key: pure builds, which see no environment, trust committed keys only.
        key = builtins.getEnv "TALOS_RELEASE_KEY";
      };
    in
    {
      inherit (pkgs) lib;
      packages.${system} = pkgs.packages;
      checks.${system} = pkgs.checks;
      apps.${system} = pkgs.apps // { default = pkgs.apps.talosctl; };
      devShells.${system} = pkgs.shells;
      formatter.${system} = pkgs.formatter;
    };
}
