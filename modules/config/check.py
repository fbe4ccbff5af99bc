"""Copy the machine config $config to $out when `talosctl validate`, of $talosctl, accepts it."""

import os
import shutil
import subprocess
import sys

config = os.environ["config"]
argv = [f"{os.environ['talosctl']}/bin/talosctl", "validate", "--mode", "metal", "--config", config]
if subprocess.run(argv, check=False).returncode:
    sys.exit(f"lib.image: config: {config} is not allowed, see above; it is what `talosctl validate` accepts")
shutil.copyfile(config, os.environ["out"])
