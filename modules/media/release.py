"""Make the release $out of $kernel, $initramfs and the boot loader in $boot."""

import os
import sys
from pathlib import Path

from talos.upgrade.release.main import main

boot = os.environ["boot"]
argv = ["make", "--version", os.environ["version"], "--commit", os.environ["rev"]]
argv += ["--commit-time", os.environ["commit_time"], "--out", os.environ["out"]]
for image in sorted(Path(os.environ["layers"]).glob("*.sqsh")) if os.environ["layers"] else ():
    argv += ["--extension", image.stem.partition(".")[2]]
argv += ["--named", f"initramfs={os.environ['initramfs']}", f"{os.environ['kernel']}/vmlinuz"]
sys.exit(main([*argv, *(f"{boot}/{name}" for name in ("boot.img", "core.img", "BOOTX64.EFI", "cmdline"))]))
