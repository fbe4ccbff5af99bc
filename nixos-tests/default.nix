# Tests on virtual machines, found by listing this folder: `name.py`, or `name/` with a `test.py`. Each is a check
# `vm-name`, which runs in the build sandbox, and an app.
{ buildRoot, roots, python, assets, iso }:
let
  entries = removeAttrs (builtins.readDir ./.) [ "driver" "faults" ];
  isTest = name: entries.${name} == "directory" || builtins.match ".*[.]py" name != null;
  nameOf = entry: builtins.head (builtins.match "([^.]+)([.]py)?" entry);
  tests = builtins.filter isTest (builtins.attrNames entries);

  driver = builtins.path {
    path = ./.;
    name = "vm-driver";
    filter = path: _: builtins.match ".*/driver(/[^/]+[.]py)?" path != null;
  };

  # A test is built from the assets that its statement ASSETS = ("one", "two") names, and from no others. A test that saves
  # its machines is an asset, too.
  listed = entry:
    let
      file = if entries.${entry} == "directory" then ./. + "/${entry}/test.py" else ./. + "/${entry}";
      found = builtins.filter builtins.isList (builtins.split "\nASSETS = [(]([^)]*)[)]" (builtins.readFile file));
      words = builtins.split "\"([a-z-]+)\"" (builtins.head (builtins.head found));
    in
    if found == [ ] then throw "${entry}: there is no ASSETS = (\"...\",)"
    else map builtins.head (builtins.filter builtins.isList words);

  # The argv that runs a module of the driver with these assets.
  run = assets: module: names:
    [ "${python.client}/bin/python3.13" "-B" "-m" module "--talosctl" "${python.unstamped}/bin/talosctl" ]
    ++ [ "--root" "${roots.vm}" "--root" "${roots.media}" ]
    ++ builtins.concatMap (name: [ "--asset" "${name}=${assets.${name} or checks."vm-${name}"}" ]) names;

  argv = entry:
    let source = builtins.path { path = ./. + "/${entry}"; name = entry; };
    in run assets "driver" (listed entry) ++ [ "${source}" "--name" (nameOf entry) ];

  app = name: argv: {
    type = "app";
    program = "${buildRoot.runIn roots.vm {
      inherit name;
      command = [ "python3.13" ./driver/make_launcher.py ] ++ argv;
      PYTHONPATH = driver;
    }}";
  };

  byName = prefix: value: builtins.listToAttrs (map (entry: { name = prefix + nameOf entry; value = value entry; }) tests);

  checks = byName "vm-" (entry: buildRoot.runIn roots.vm {
    name = "vm-${nameOf entry}";
    command = argv entry ++ [ "--report" (builtins.placeholder "out") ];
    PYTHONPATH = driver;
  });
in
{
  inherit checks;

  # `driver-name` gives the machines to a person, `vm-name` runs the test outside of the sandbox.
  apps = byName "driver-" (entry: app "driver-${nameOf entry}" (argv entry ++ [ "--interactive" ]))
    // byName "vm-" (entry: app "vm-${nameOf entry}" (argv entry)) // {
    run-vm = app "run-vm" (run { inherit iso; } "driver.run_vm" [ "iso" ]);
  };
}
