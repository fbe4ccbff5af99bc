"""Make $out, a program in one file for any system's Python: a zip of $start, $package and $client's wheels.

Nothing compiled is in it. A wheel that has pure Python beside what is compiled works by that; those that have
none are $required: packages and the modules by which they are found.
"""

import hashlib
import io
import os
import zipfile
from pathlib import Path

from archive import find_files, pack

SHEBANG = b"#!/usr/bin/env python3.13\n"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip can have."""
LEFT_OUT = ("*.pyi", "*.so", "start.bundle", *os.environ["leave_out"].split())
MEGABYTE = 1_000_000


def find_version(site: Path, name: str) -> str:
    """The version of a package, by the folder of its metadata."""
    (found,) = site.glob(f"{name}-*.dist-info")
    return found.name.removeprefix(f"{name}-").removesuffix(".dist-info")


def make_zip(start: bytes, archive: bytes) -> bytes:
    """The file: what starts the program, and what it unpacks, which is compressed already."""
    packed = io.BytesIO(SHEBANG)
    packed.seek(len(SHEBANG))
    with zipfile.ZipFile(packed, "a") as file:
        file.writestr(zipfile.ZipInfo("__main__.py", EARLIEST), start)
        file.writestr(zipfile.ZipInfo("program.tar.gz", EARLIEST), archive)
    return packed.getvalue()


def main() -> None:
    """Write $out."""
    site = Path(os.environ["client"], "usr/lib/python3/dist-packages")
    required = dict(word.split("=") for word in os.environ["required"].split())
    own = [pattern for name in required for pattern in (name, f"{name}-*.dist-info")]
    members = dict(find_files(site, "site", (*LEFT_OUT, *own)))
    members |= find_files(Path(os.environ["package"], "lib"), "program", LEFT_OUT)
    archive = pack({}, members)
    values = {
        "version": os.environ["version"],
        "digest": hashlib.sha256(archive).hexdigest(),
        "required": " ".join(
            f"{module}={name}=={find_version(site, name)}" for name, module in required.items()
        ),
    }
    start = Path(os.environ["start"]).read_text()
    for name, value in values.items():
        start = start.replace(f"@{name}@", value)
    out = Path(os.environ["out"])
    out.write_bytes(make_zip(start.encode(), archive))
    out.chmod(0o755)
    size = sum(path.stat().st_size for path in members.values())
    print(f"{out.stat().st_size / MEGABYTE:.1f} MB, unpacked {size / MEGABYTE:.1f} MB; {values['required']}")


main()
