"""Unpack the module golang.org/toolchain into $out as a Go root; the archive of a module has no x bits."""

import os
import zipfile
from pathlib import Path

out = Path(os.environ["out"])
with zipfile.ZipFile(os.environ["archive"]) as archive:
    for member in archive.infolist():
        inside = member.filename.split("/", 2)[2]
        # What compiles does not need these, a third of the whole.
        if (
            inside.startswith(("api/", "doc/", "test/"))
            or "/testdata/" in inside
            or inside.endswith("_test.go")
        ):
            continue
        file = out / inside
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(archive.read(member))
        if inside.startswith(("bin/", "pkg/tool/")):
            file.chmod(0o755)
