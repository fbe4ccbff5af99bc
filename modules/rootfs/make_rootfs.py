"""Build the whole root as a tree, to look at or to make other images of: the base and our layer."""

import os
from pathlib import Path

from bytecode import copy_tree

for part in ("base", "layer"):
    copy_tree(Path(os.environ[part]), Path(os.environ["out"]))
