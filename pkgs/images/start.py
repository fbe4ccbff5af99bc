"""Start the program of a module, the first argument, with a node's standard library: partly in one file."""

import os
import sys

LIB = "/usr/lib/talos"
STDLIB, WHEELS = "/usr/lib/python3.13", "/usr/lib/python3/dist-packages"
sys.path[:] = [LIB, STDLIB, f"{STDLIB}/lib-dynload", WHEELS]
# Where time zones are would else be read from build settings, which nodes do not have.
os.environ["PYTHONTZPATH"] = "/usr/share/zoneinfo"

from talos.startup import bundle  # noqa: E402 - found by the path above

bundle.install([f"{folder}/start.bundle" for folder in (STDLIB, WHEELS)])

import importlib  # noqa: E402 - its modules are in the bundle

sys.exit(importlib.import_module(sys.argv.pop(1)).main())
