"""Make the squashfs $out of $rootfs with the extensions' files in $tree; $layers has the list of them."""

import os
import shutil
import subprocess
from pathlib import Path

from bytecode import copy_tree


def main() -> None:
    """One tree of both: a node that is a container has no initramfs that could carry layers."""
    tree, out = Path("/build/tree"), os.environ["out"]
    for part in ("rootfs", "tree"):
        copy_tree(Path(os.environ[part]), tree)
    shutil.copyfile(Path(os.environ["layers"], "extensions.yaml"), tree / "etc/extensions.yaml")
    options = ["-comp", "zstd", "-Xcompression-level", "9", "-b", "256K", "-all-root", "-no-xattrs"]
    options += ["-no-exports", "-no-progress", "-quiet"]
    subprocess.run(["mksquashfs", str(tree), out, *options], check=True)


main()
