# The documentation as a static site with a search, by Sphinx from the pages of the repository.
{ buildRoot, roots, wheels, version }:
let
  pages = "[A-Z]+[.]md|LICENSE|docs(/.*)?|kernel(/README[.]md)?|python(/layers[.]toml)?";

  # As they lie in the repository, so that their links lead to the same places here and there.
  tree = builtins.path {
    path = ../..;
    name = "pages";
    filter = path: _: builtins.match pages (builtins.substring (builtins.stringLength (toString ../..) + 1) (-1) path) != null;
  };
in
buildRoot.runIn roots.build {
  name = "talos-site";
  # A warning is an error: a link or an anchor that leads nowhere, a page that no other one leads to.
  command = [ "python3.13" "-m" "sphinx" "-q" "-W" "--keep-going" "-c" ./config "-d" "/build/doctrees" tree (builtins.placeholder "out") ];
  PYTHONPATH = "${wheels.site}/site";
  inherit version;
}
