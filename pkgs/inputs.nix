# The locked files as fixed outputs. `make fetch` puts them into the store; nothing here can download.
let
  lock = builtins.fromJSON (builtins.readFile ./locks/debian.json);

  # pkgs/fetch/locks.py `legal` gives the files the same names.
  legal = builtins.replaceStrings [ "%3a" "~" "/" ] [ "-" "-" "-" ];

  spec = builtins.fromTOML (builtins.readFile ./roots.toml);

  # The command that brings what is in these roots or sets of Go programs; one of them suffices.
  remedy = names:
    let
      onDemand = name: (spec.debian.roots.${name} or spec.wheels.sets.${name} or goSets.${name} or { }).on_demand or false;
      grouped = group: builtins.any (name: builtins.elem name names) spec.groups.${group};
      groups = builtins.filter grouped (builtins.attrNames spec.groups);
    in
    if !(builtins.all onDemand names) then "make fetch"
    else "make fetch ROOTS=${builtins.head (groups ++ names)}";
  goSets = builtins.mapAttrs (_: set: spec.go.sets.${set.like or ""} or { } // set) spec.go.sets;

  # By member, the names of the lists that have it.
  holders = lists: builtins.mapAttrs (_: map (found: found.list)) (builtins.groupBy (found: found.member)
    (builtins.concatLists (builtins.attrValues (builtins.mapAttrs (list: map (member: { inherit list member; })) lists))));
  rootsOf = holders lock.roots;
  setsOf = holders (removeAttrs go.sets [ "toolchain" ]);

  fixed = { name, sha256, mode ? "flat", command ? "make fetch" }: derivation {
    inherit name;
    system = "x86_64-linux";
    # Runs only when the file is not in the store, and fails with a message that names the remedy.
    builder = "/missing input ${name}: run `${command}`, or `make fetch ALL=1` for everything";
    outputHashAlgo = "sha256";
    outputHashMode = mode;
    outputHash = sha256;
  };

  deb = name:
    let entry = lock.packages.${name};
    in fixed { name = legal entry.file; inherit (entry) sha256; command = remedy rootsOf.${name}; };

  wheelsOf = set:
    let
      lines = builtins.filter builtins.isString (builtins.split "\n" (builtins.readFile (./locks + "/wheels-${set}.txt")));
      parse = builtins.match "([^=# ]+)==([^ ]+) --hash=sha256:([0-9a-f]+)  # (.+)";
      found = builtins.filter (line: line != null) (map parse lines);
    in
    map (fields: fixed { name = builtins.elemAt fields 3; sha256 = builtins.elemAt fields 2; command = remedy [ set ]; }) found;

  pick = names: from: builtins.listToAttrs (map (name: { inherit name; value = from.${name}; }) names);
  concatValues = from: builtins.concatLists (builtins.attrValues from);

  go = builtins.fromJSON (builtins.readFile ./locks/go.json);
  module = name:
    let
      parts = builtins.match "(.+)@(.+)" name;
      path = builtins.elemAt parts 0;
      version = builtins.elemAt parts 1;
      command = if setsOf ? ${name} then remedy setsOf.${name} else "make fetch"; # the compiler, which all need
      file = kind: fixed { name = legal "${path}-${version}.${kind}"; sha256 = go.modules.${name}.${kind}; inherit command; };
    in
    { inherit path version; zip = file "zip"; mod = file "mod"; };
in
{
  # By set, the modules that its programs are made of: path, version, and the two files a proxy has of each.
  modules = builtins.mapAttrs (_: map module) go.sets;

  # Parts of the locks, so that what is made from them stays when the rest changes: sets and the compiler, packages of
  # roots and others.
  goLock = names:
    let sets = pick ([ "toolchain" ] ++ names) go.sets;
    in builtins.toFile "go.json" (builtins.toJSON { inherit sets; modules = pick (concatValues sets) go.modules; });
  debianLock = names: others:
    let packages = pick (concatValues (pick names lock.roots) ++ others) lock.packages;
    in builtins.toFile "debian.json" (builtins.toJSON { inherit packages; });

  # The .deb file of a package.
  inherit deb;

  # Lists of .deb files, by root, and of .whl files, by set.
  debs = builtins.mapAttrs (_: map deb) lock.roots;
  # By package.
  versions = builtins.mapAttrs (_: entry: entry.version) lock.packages;
  wheels = builtins.mapAttrs (set: _: wheelsOf set) spec.wheels.sets;
  busybox = "${fixed { name = "bootstrap"; inherit (lock.bootstrap) sha256; mode = "recursive"; }}/busybox";
}
