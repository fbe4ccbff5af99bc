"""Make the initramfs $out of $parts, one behind the other."""

import os
import shutil
from pathlib import Path

with Path(os.environ["out"]).open("wb") as out:
    for path in os.environ["parts"].split():
        with Path(path).open("rb") as part:
            shutil.copyfileobj(part, out, 1 << 20)
