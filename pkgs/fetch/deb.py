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
    return open_part(deb, name, "data.tar")


def open_part(deb: BinaryIO, name: str, part: str) -> tarfile.TarFile:
    """Open one of the two archives in a package."""
    if deb.read(len(MAGIC)) != MAGIC:
        raise FetchError(f"{name} is no Debian package")
    while header := deb.read(HEADER):
        member, size = header[:16].decode().strip(" /"), int(header[48:58])
        if member.startswith(part):
            return tarfile.open(fileobj=deb, mode="r|*")
        deb.seek(size + size % 2, 1)
    raise FetchError(f"{name} has no {part}")


def read_file(deb: Path, wanted: str) -> bytes:
    """Return one of a package's files."""
    with deb.open("rb") as stream, open_data(stream, deb.name) as archive:
        for member in archive:
            if member.name.removeprefix("./") == wanted and (file := archive.extractfile(member)):
                return file.read()
    raise FetchError(f"{deb.name} has no {wanted}")


def read_source(deb: Path) -> tuple[str, str]:
    """Return the name and the version of what a package was built from; "" where they are its own."""
    with deb.open("rb") as stream, open_part(stream, deb.name, "control.tar") as archive:
        for member in archive:
            if member.name.removeprefix("./") == "control" and (file := archive.extractfile(member)):
                for line in file.read().decode().splitlines():
                    key, _, value = line.partition(": ")
                    if key == "Source":
                        name, _, version = value.strip().partition(" ")
                        return name, version.strip("()")
    return "", ""
