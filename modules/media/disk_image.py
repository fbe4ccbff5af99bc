"""Make $out/disk.raw, a disk with an installed system, and the same as disk.qcow2."""

import os
import subprocess
import sys
from pathlib import Path

from talos.disks.install.make_disk import main as make_disk


def main() -> int:
    """Make the raw image, then convert it; its empty parts take no room in either."""
    out = Path(os.environ["out"])
    out.mkdir()
    raw = out / "disk.raw"
    argv = ["--version", os.environ["version"], "--boot", os.environ["boot"], "--out", str(raw)]
    argv += ["--kernel", f"{os.environ['kernel']}/vmlinuz", "--initramfs", os.environ["initramfs"]]
    code = make_disk(argv)
    if code == 0:
        subprocess.run(
            ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(out / "disk.qcow2")], check=True
        )
    return code


sys.exit(main())
