"""Debian packages as files: ar archives with a tar inside, read without dpkg."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import BinaryIO

from report import FetchError

MAGIC = b"!<arch>\n"
HEADER = 60
"""Bytes before a member: name, times, owners, mode, size."""


def open_data(deb: BinaryIO, name: str) -> tarfile.TarFile:
    """Open the archive of a package's files."""
    if deb.read(len(MAGIC)) != MAGIC:
        raise FetchError(f"{name} is no Debian package")
    while header := deb.read(HEADER):
        member, size = header[:16].decode().strip(" /"), int(header[48:58])
        if member.startswith("data.tar"):
            return tarfile.open(fileobj=deb, mode="r|*")
        deb.seek(size + size % 2, 1)
    raise FetchError(f"{name} has no files")


def read_file(deb: Path, wanted: str) -> bytes:
    """Return one of a package's files."""
    with deb.open("rb") as stream, open_data(stream, deb.name) as archive:
        for member in archive:
            if member.name.removeprefix("./") == wanted and (file := archive.extractfile(member)):
                return file.read()
    raise FetchError(f"{deb.name} has no {wanted}")
