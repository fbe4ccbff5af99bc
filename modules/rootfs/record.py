"""Import everything that a node may load, and write what Python generates meanwhile as a mapping."""

import importlib
import marshal
import os
import sys
from pathlib import Path

START = (
    "talos.machined.boot.early",
    "talos.machined.boot.boot",
    "talos.machined.boot.serve",
    "talos.networkd.main",
    "talos.apid.main",
)
"""Modules that a start begins with: what is generated for them comes first, in that order."""


def main() -> None:
    """Go through the $packages; the one file of a module is in any of them."""
    sys.path[:0] = [f"{package}/lib" for package in os.environ["packages"].split()]
    recorded = importlib.import_module("talos.startup.generated").record()
    names = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for folder in map(Path, sys.path[: len(os.environ["packages"].split())])
        for path in folder.rglob("*.py")
    }
    for name in (*START, *sorted(names)):
        importlib.import_module(name)
    Path(os.environ["out"]).write_bytes(marshal.dumps(recorded))


main()
