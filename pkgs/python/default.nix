# Python: wheels, our folders (each its own derivation), and the interpreter of the workstation.
{ inputs, buildRoot, roots }:
let
  scripts = builtins.path { path = ./.; name = "python-build"; filter = path: _: builtins.match ".*[.]py" path != null; };
  build = buildRoot.runIn roots.build;

  # One folder of python/talos, only what counts, so that an edit elsewhere rebuilds nothing here.
  folderSource = folder: builtins.path {
    path = ../../python/talos + "/${folder}";
    name = "source-${folder}";
    filter = path: _: builtins.match ".*(__pycache__|_pb2[.]pyi?)" path == null;
  };
  onlyFolders = names: set: builtins.filter (name: set.${name} == "directory") names;
  entries = builtins.readDir ../../python/talos;
in
rec {
  inherit folderSource scripts;

  wheels = builtins.mapAttrs
    (set: files: build {
      name = "wheels-${set}";
      command = [ "python3.13" "${scripts}/unpack_wheels.py" ];
      wheels = files;
    })
    inputs.wheels;

  # The modules generated from the .proto files.
  api = buildRoot.runIn roots.workstation {
    name = "talos-api-generated";
    command = [ "python3.13" "${scripts}/make_api.py" ];
    source = folderSource "api";
    PYTHONPATH = "${wheels.tools}/site:${wheels.image}/site";
  };

  # Every folder of python/talos as it will be found in the image, by name.
  folders = builtins.listToAttrs (map
    (folder: {
      name = folder;
      value = build ({
        name = "talos-${folder}";
        command = [ "python3.13" "${scripts}/make_folder.py" ];
        inherit folder;
        source = folderSource folder;
        runtime = "/usr/lib/talos";
      } // (if folder == "api" then { generated = api; } else { }));
    })
    (onlyFolders (builtins.attrNames entries) entries));

  workstation = build {
    name = "python-workstation";
    command = [ "python3.13" "${scripts}/make_workstation.py" ];
    debian = roots.workstation;
    wheels = [ wheels.image wheels.tools ];
  };
}
