"""Make the second archive of an initramfs, $out: $os_release, the public keys in $keys.

$signatures is how many of them must have signed a release.
"""

import os
import shutil
from pathlib import Path

from talos.upgrade.release.initramfs import NEEDED, RELEASE, read_folder

folder = Path("release")
(folder / "keys").mkdir(parents=True)
shutil.copyfile(os.environ["os_release"], folder / "os-release")
for number, key in enumerate(sorted(os.environ["keys"].split())):
    shutil.copyfile(key, folder / "keys" / f"{number}.pub")
if (needed := os.environ["signatures"]) != "1":
    (folder / "keys" / NEEDED).write_text(f"{needed}\n", encoding="ascii")
with Path(os.environ["out"]).open("wb") as out:
    out.writelines(read_folder(folder, RELEASE))
