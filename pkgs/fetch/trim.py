"""A module without a few of its imports, for programs whose plugins are chosen by imports.

The fetcher uses this to find what such a program needs, and pkgs/go/build.py to compile it.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "trimmed"
"""Beside go.mod, which names it in place of the module."""


def unpack_trimmed(archive: Path, trim: Mapping[str, Any], folder: Path) -> None:
    """Unpack a module (`path@version`) below `folder`, without `imports` in its `file`, and without tests.

    Tests would ask for modules that the program is not made of.
    """
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    prefix = f"{trim['module']}/"
    with zipfile.ZipFile(archive) as source:
        for name in source.namelist():
            if name.startswith(prefix) and not name.endswith("_test.go"):
                target = folder / FOLDER / name.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read(name))
    file = folder / FOLDER / trim["file"]
    lines = file.read_text().splitlines(keepends=True)
    dropped = {f'_ "{name}"' for name in trim["imports"]}
    kept = [line for line in lines if line.strip() not in dropped]
    if len(lines) - len(kept) != len(dropped):
        raise ValueError(
            f"{trim['module']}/{trim['file']} does not have each of the imports to leave out once"
        )
    file.write_text("".join(kept))
