"""Make an archive for the end of an initramfs, $out, of $folder, which is named $name_inside there."""

import os
from pathlib import Path

from talos.upgrade.release.initramfs import read_folder

with Path(os.environ["out"]).open("wb") as out:
    out.writelines(read_folder(Path(os.environ["folder"]), os.environ["name_inside"]))
