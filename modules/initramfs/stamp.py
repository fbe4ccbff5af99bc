"""Make the second archive of an initramfs, $out: $os_release, and the public keys in $keys."""

import os
import shutil
from pathlib import Path

from talos.upgrade.release.initramfs import RELEASE, read_folder

folder = Path("release")
(folder / "keys").mkdir(parents=True)
shutil.copyfile(os.environ["os_release"], folder / "os-release")
for number, key in enumerate(sorted(os.environ["keys"].split())):
    shutil.copyfile(key, folder / "keys" / f"{number}.pub")
with Path(os.environ["out"]).open("wb") as out:
    out.writelines(read_folder(folder, RELEASE))
