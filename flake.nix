{
  description = "An immutable operating system for Kubernetes with a Python user space";

  outputs = { self }:
    let
      pkgs = import ./pkgs { rev = self.rev or "dirty"; };
    in
    {
      packages.x86_64-linux = pkgs.packages;
    };
}
