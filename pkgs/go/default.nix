# Programs compiled from locked Go modules: for each set of roots.toml a derivation with an output for each program.
{ inputs, buildRoot, roots }:
let
  spec = (builtins.fromTOML (builtins.readFile ../roots.toml)).go;
  build = buildRoot.runIn roots.build;
  buildC = buildRoot.runIn roots.cgo;

  toolchain = build {
    name = "go-${spec.toolchain}";
    command = [ "python3.13" ./unpack_toolchain.py ];
    archive = (builtins.head inputs.modules.toolchain).zip;
  };

  # With C, the same steps by a text of their own, so that they are no input of the sets without it.
  script = ./build.py;
  text = builtins.readFile script;
  textC = builtins.replaceStrings [ ''"CGO_ENABLED": "0"'' ] [ ''"CGO_ENABLED": "1"'' ] text;
  scriptC = assert textC != text; builtins.toFile "build.py" textC;

  # So is a set with tests, whose script takes functions from that of the others.
  recipe = builtins.replaceStrings [ "\nmain()\n" ] [ "" ] text;
  withTests = wanted: {
    command = [ "python3.13" ./build_tests.py ];
    outputs = builtins.attrNames (wanted.programs // wanted.tests);
    recipe = assert recipe != text; builtins.toFile "recipe.py" recipe;
    tests = builtins.toJSON (places wanted.tests);
  };
  withPrograms = wanted: {
    command = [ "python3.13" (if wanted.cgo or false then scriptC else script) ];
    outputs = builtins.attrNames wanted.programs;
  };
  places = builtins.mapAttrs (name: package: { inherit package; out = builtins.placeholder name; });

  set = name: wanted: (if wanted.cgo or false then buildC else build) ((if wanted ? tests then withTests else withPrograms) wanted // {
    name = "go-${name}";
    inherit toolchain;
    folder = ../locks/go + "/${name}";
    tags = builtins.concatStringsSep "," (wanted.tags or [ ]);
    programs = builtins.toJSON (places wanted.programs);
    trim = builtins.toJSON (wanted.trim or null);
    PYTHONPATH = builtins.path { path = ../fetch; name = "trim"; filter = path: _: baseNameOf path == "trim.py"; };
    stamps = builtins.toJSON (wanted.stamps or { });
    modules = builtins.toJSON inputs.modules.${name};
    # Too long for the environment.
    passAsFile = [ "modules" ];
  });
in
builtins.mapAttrs (name: wanted: set name ((if wanted ? like then spec.sets.${wanted.like} else { }) // wanted)) spec.sets
