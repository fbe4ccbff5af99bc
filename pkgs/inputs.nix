# The locked files as fixed outputs. `make fetch` puts them into the store; nothing here can download.
let
  lock = builtins.fromJSON (builtins.readFile ./locks/debian.json);

  # pkgs/fetch/locks.py `legal` gives the files the same names.
  legal = builtins.replaceStrings [ "%3a" "~" "/" ] [ "-" "-" "-" ];

  fixed = { name, sha256, mode ? "flat" }: derivation {
    inherit name;
    system = "x86_64-linux";
    # Runs only when the file is not in the store, and fails with a message that names the remedy.
    builder = "/missing input, run 'make fetch': ${name}";
    outputHashAlgo = "sha256";
    outputHashMode = mode;
    outputHash = sha256;
  };

  deb = name:
    let entry = lock.packages.${name};
    in fixed { name = legal entry.file; inherit (entry) sha256; };

  wheelsOf = set:
    let
      lines = builtins.filter builtins.isString (builtins.split "\n" (builtins.readFile (./locks + "/wheels-${set}.txt")));
      parse = builtins.match "([^=# ]+)==([^ ]+) --hash=sha256:([0-9a-f]+)  # (.+)";
      found = builtins.filter (line: line != null) (map parse lines);
    in
    map (fields: fixed { name = builtins.elemAt fields 3; sha256 = builtins.elemAt fields 2; }) found;

  go = builtins.fromJSON (builtins.readFile ./locks/go.json);
  module = name:
    let
      parts = builtins.match "(.+)@(.+)" name;
      path = builtins.elemAt parts 0;
      version = builtins.elemAt parts 1;
      file = kind: fixed { name = legal "${path}-${version}.${kind}"; sha256 = go.modules.${name}.${kind}; };
    in
    { inherit path version; zip = file "zip"; mod = file "mod"; };
in
{
  # By set, the modules that its programs are made of: path, version, and the two files a proxy has of each.
  modules = builtins.mapAttrs (_: map module) go.sets;

  # Lists of .deb files, by root, and of .whl files, by set.
  debs = builtins.mapAttrs (_: map deb) lock.roots;
  # By package.
  versions = builtins.mapAttrs (_: entry: entry.version) lock.packages;
  wheels = { image = wheelsOf "image"; tools = wheelsOf "tools"; };
  busybox = "${fixed { name = "bootstrap"; inherit (lock.bootstrap) sha256; mode = "recursive"; }}/busybox";
}
