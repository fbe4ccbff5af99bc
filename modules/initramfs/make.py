"""Make the initramfs $out from $init and $image, whose hash tree is added."""

import os
from pathlib import Path

from talos.system.block.verity import make_tree
from talos.upgrade.release.initramfs import read_initramfs

image = Path(os.environ["image"])
with Path(os.environ["out"]).open("wb") as out:
    out.writelines(read_initramfs(Path(os.environ["init"]), image, make_tree(image)))
