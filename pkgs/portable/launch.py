"""Start the program from the folder that it was unpacked into."""

import importlib
import sys
from pathlib import Path

root = str(Path(__file__).resolve().parent)
stdlib = f"{root}/lib/python3.13"
sys.path[:] = [f"{root}/program", stdlib, f"{stdlib}/lib-dynload", f"{root}/site"]
sys.executable = f"{root}/python"  # what starts other programs of its package
sys.exit(importlib.import_module("@module@").main())
