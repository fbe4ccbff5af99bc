"""Make the initramfs $out from $init and $image."""

import os
from pathlib import Path

from talos.upgrade.release.initramfs import read_initramfs

with Path(os.environ["out"]).open("wb") as out:
    out.writelines(read_initramfs(Path(os.environ["init"]), Path(os.environ["image"])))
