"""The one layer of a release: a plain tar with exactly the files of its manifest.

It is not compressed, as its content is: nothing in it can grow while it is read. Only plain files and folders
are accepted, so that what a file's name means does not depend on who reads it.
"""

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from talos.system.errors import UserError
from talos.upgrade.release.manifest import (
    COMMIT_TIME,
    FOLDER,
    MAX_COMMIT_TIME,
    MAX_FILES,
    ReleaseFile,
    ReleaseManifest,
    parse_commit_time,
)

WHERE = "release layer"
CHUNK = 1 << 20
"""Bytes that are in memory at a time."""
_BLOCK = tarfile.BLOCKSIZE
_MAX_ENTRIES = MAX_FILES + 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer whose files are those of a manifest. ``offsets`` in bytes, by the files' names."""

    path: Path
    files: Mapping[str, ReleaseFile]
    offsets: Mapping[str, int]

    def read(self, name: str) -> Iterator[bytes]:
        """A file in pieces, compared each time: the disk may give something else than before. UserError.

        Its last piece comes only when all of it has the digest of the manifest.
        """
        wanted, digest, last = self.files[name], hashlib.sha256(), b""
        with self.path.open("rb") as file:
            file.seek(self.offsets[name])
            for piece in _read(file, wanted.size):
                if last:
                    yield last
                digest.update(piece)
                last = piece
        if digest.hexdigest() != wanted.sha256:
            raise _refuse(
                f"{name} has the digest {digest.hexdigest()}, in the manifest it is {wanted.sha256}"
            )
        yield last

    def read_commit_time(self) -> int:
        """The time of the release's commit in seconds since the epoch, 0 without one. UserError."""
        if COMMIT_TIME not in self.files or self.files[COMMIT_TIME].size > MAX_COMMIT_TIME:
            return 0
        return parse_commit_time(b"".join(self.read(COMMIT_TIME)).decode("ascii", "replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release that may be installed: signed by a trusted key, and complete."""

    name: str
    manifest: ReleaseManifest
    layer: Layer


def check_layer(path: Path, release: ReleaseManifest) -> Layer:
    """Compare a layer's files with the manifest, every byte of them; UserError."""
    with path.open("rb") as file:
        offsets = _find_files(file, release)
    layer = Layer(path=path, files=release.files, offsets=offsets)
    for name in release.files:
        for _ in layer.read(name):
            pass
    return layer


def _find_files(file: BinaryIO, release: ReleaseManifest) -> dict[str, int]:
    offsets: dict[str, int] = {}
    folders = {str(parent) for parent in Path(f"{FOLDER}/x").parents}
    for _ in range(_MAX_ENTRIES):
        header = file.read(_BLOCK)
        if not header.strip(b"\0"):
            break
        entry = _parse_header(header)
        if entry.isdir() and entry.name.rstrip("/") in folders and not entry.size:
            continue
        name = _check_entry(entry, release)
        if name in offsets:
            raise _refuse(f"{name} is there twice")
        offsets[name] = file.tell()
        file.seek(-(-entry.size // _BLOCK) * _BLOCK, 1)
    else:
        raise _refuse(f"has more than {_MAX_ENTRIES} entries")
    missing = sorted(release.files.keys() - offsets.keys())
    if missing:
        raise _refuse(f"lacks {', '.join(missing)}")
    return offsets


def _parse_header(header: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        raise _refuse("is no uncompressed tar archive, or ends too early") from None


def _check_entry(entry: tarfile.TarInfo, release: ReleaseManifest) -> str:
    folder, _, name = entry.name.rpartition("/")
    shown = entry.name[:80].encode("ascii", "backslashreplace").decode()
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise _refuse(f"{shown!r} is neither a plain file nor a folder of {FOLDER}")
    if folder != FOLDER or name not in release.files:
        raise _refuse(f"{shown!r} is not in the manifest")
    if entry.size != release.files[name].size:
        raise _refuse(f"{name} has {entry.size} bytes, in the manifest it has {release.files[name].size}")
    return name


def _read(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = file.read(min(size, CHUNK))
        if not piece:
            raise _refuse("ends too early")
        size -= len(piece)
        yield piece


def _refuse(text: str) -> UserError:
    return UserError(text, where=WHERE)
