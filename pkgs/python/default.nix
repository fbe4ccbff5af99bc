# Python: wheels, our folders (each its own derivation), daemons' packages, and the workstation's programs.
{ inputs, buildRoot, roots, version, rev }:
let
  # Builders see the scripts they use and no others, so that an edit of one rebuilds only what it makes.
  scripts = files: builtins.path {
    path = ./.;
    name = "scripts";
    filter = path: _: builtins.elem (baseNameOf path) files;
  };
  run = script: modules: [ "python3.13" "${scripts ([ script ] ++ modules)}/${script}" ];
  build = buildRoot.runIn roots.build;

  # What each folder of python/talos is, and what it may import.
  layers = builtins.fromTOML (builtins.readFile ../../python/layers.toml);
  on = place: builtins.filter (name: builtins.elem place layers.${name}.on) (builtins.attrNames layers);
  below = name: builtins.filter (other: layers.${other}.layer < layers.${name}.layer) (on "node");
  genAttrs = list: value: builtins.listToAttrs (map (name: { inherit name; value = value name; }) list);

  # One folder of python/talos, only what counts, so that an edit elsewhere rebuilds nothing here.
  source = folder: builtins.path {
    path = ../../python/talos + "/${folder}";
    name = "source-${folder}";
    filter = path: _: builtins.match ".*(__pycache__|_pb2[.]pyi?)" path == null;
  };
in
rec {
  inherit layers;

  # The modules that others' builders share.
  bytecode = scripts [ "bytecode.py" ];
  corrections = scripts [ "fix_wheels.py" ];

  daemons = builtins.filter (name: layers.${name}.layer == layers.machined.layer) (on "node");

  wheels = builtins.mapAttrs
    (set: files: build {
      name = "wheels-${set}";
      command = run "unpack_wheels.py" [ "fix_wheels.py" ];
      wheels = files;
    })
    inputs.wheels;

  # The modules generated from the .proto files.
  api = buildRoot.runIn roots.workstation {
    name = "talos-api";
    command = run "make_api.py" [ ];
    source = source "api";
    PYTHONPATH = "${wheels.build}/site:${wheels.image}/site";
  };

  # Every folder of the node as the image holds it, by name.
  folders = genAttrs (on "node") (folder: makeFolder folder (source folder));

  makeFolder = folder: source: build ({
    name = "talos-${folder}";
    command = run "make_folder.py" [ "bytecode.py" ];
    inherit folder source;
    runtime = "/usr/lib/talos";
  } // (if folder == "api" then { generated = api; } else { }));

  # A package per daemon: its folder and those below. The image is assembled from these.
  packages = genAttrs daemons (name: makePackage name (map (folder: folders.${folder}) (below name ++ [ name ])));

  makePackage = name: folders: build {
    inherit name folders;
    command = run "make_package.py" [ "bytecode.py" ];
  };

  # The workstation's interpreters: one with what talosctl and the other programs need, and one with every wheel, for
  # tests and linters. Nothing but checks is made with that one.
  client = makeInterpreter "client" [ "image" "client" ];
  workstation = makeInterpreter "workstation" [ "image" "client" "build" "dev" ];

  makeInterpreter = name: sets: build {
    name = "python-${name}";
    command = run "make_workstation.py" [ "bytecode.py" "fix_wheels.py" ];
    debian = roots.workstation;
    wheels = map (set: wheels.${set}) sets;
  };

  # A program of the workstation: `settings` are "NAME=VALUE" entries of its environment, `preload` modules that most
  # runs import.
  program = makeProgram "unknown";

  makeProgram = rev: name: module: settings: preload: build {
    inherit name module settings preload client version rev;
    command = run "make_program.py" [ "bytecode.py" ];
    sources = map (folder: "${folder}=${source folder}") (on "workstation");
    generated = api;
  };

  talosctl = makeTalosctl rev;

  # Without the commit, so that a commit is no reason to run tests again.
  unstamped = makeTalosctl "unknown";

  makeTalosctl = rev: makeProgram rev "talosctl" "talos.talosctl.main" [ ] [
    "talos.talosctl.main"
    "talos.talosctl.tree"
    "talos.talosctl.commands.service"
    "talos.talosctl.commands.get"
    "encodings.idna"
  ];
}
