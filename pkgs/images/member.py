"""Copy one member of a zip archive to $out."""

import os
import zipfile
from pathlib import Path

with zipfile.ZipFile(os.environ["archive"]) as archive:
    Path(os.environ["out"]).write_bytes(archive.read(os.environ["member"]))
