"""Build a daemon's package: its own folder and the layers below it, as the image holds them."""

import os
from pathlib import Path

from bytecode import copy_tree

for folder in os.environ["folders"].split():
    copy_tree(Path(folder), Path(os.environ["out"], "lib"))
