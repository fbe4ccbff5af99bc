"""Make $out a folder with a link to each of $archives, under the archive's name without its hash."""

import os
from pathlib import Path

out = Path(os.environ["out"])
out.mkdir()
for archive in os.environ["archives"].split():
    (out / Path(archive).name.split("-", 1)[1]).symlink_to(archive)
