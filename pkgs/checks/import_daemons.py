"""Import each daemon from its own package alone, which holds what its floor allows and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

IMPORT = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
importlib.import_module(f"talos.{sys.argv[2]}.main")
"""


def main() -> None:
    """Go through the $packages; a name is the last part of a store path behind its hash."""
    python = f"{os.environ['workstation']}/bin/python3.13"
    for package in map(Path, os.environ["packages"].split()):
        name = package.name.partition("-")[2]
        subprocess.run([python, "-I", "-c", IMPORT, str(package / "lib"), name], check=True)
        sys.stdout.write(f"{name}: imports from its own package\n")
    Path(os.environ["out"]).write_text("passed\n")


main()
