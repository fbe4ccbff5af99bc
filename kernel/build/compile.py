"""Build the kernel from a finished configuration."""

import os
import shutil
from pathlib import Path

from tree import add_alternatives, run_make, unpack_source


def main() -> None:
    """Write $out/vmlinuz, which firmware and boot loaders start, and $out/vmlinux for direct boot by PVH."""
    add_alternatives()
    tree = unpack_source()
    shutil.copyfile(os.environ["config"], tree / ".config")
    run_make(tree, "bzImage")
    out = Path(os.environ["out"])
    out.mkdir()
    shutil.copyfile(tree / "arch/x86/boot/bzImage", out / "vmlinuz")
    shutil.copyfile(tree / "arch/x86/boot/compressed/vmlinux.bin", out / "vmlinux")
    shutil.copyfile(os.environ["config"], out / "config")


main()
