"""Make the image: the compressed base, with our layer appended to it.

Appending keeps the base's blocks as they are, so a change of Python costs seconds instead of a compression of
everything. The price is that the layer is a folder of its own at the top, /talos; links lead there.
"""

import os
import shutil
import subprocess
from pathlib import Path

MEGABYTE = 1_000_000


def main() -> None:
    """Append $layer to $base as $out and print its size."""
    image, out = Path("/build/image"), Path(os.environ["out"])
    shutil.copyfile(os.environ["base"], image)
    options = ["-all-root", "-no-xattrs", "-no-recovery", "-no-progress", "-quiet"]
    done = subprocess.run(
        ["mksquashfs", os.environ["layer"], str(image), *options], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"mksquashfs ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    shutil.copyfile(image, out)
    print(f"squashfs: {out.stat().st_size / MEGABYTE:.1f} MB")


main()
