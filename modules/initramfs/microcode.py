"""Make the archive before an initramfs, $out: the microcode in $extensions; empty without any."""

import os
from pathlib import Path

from talos.upgrade.release.initramfs import MICROCODE, read_microcode

firmware = Path("firmware")
for extension in os.environ["extensions"].split():
    for library in ("lib", "usr/lib"):
        folder = Path(extension, "rootfs", library, "firmware")
        for name in MICROCODE:
            for path in (folder / name).glob("*"):
                (firmware / name).mkdir(parents=True, exist_ok=True)
                (firmware / name / path.name).symlink_to(path)
with Path(os.environ["out"]).open("wb") as out:
    out.writelines(read_microcode(firmware))
