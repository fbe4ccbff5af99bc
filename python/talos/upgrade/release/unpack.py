"""A container node's part of a release's initramfs: system image, extensions, the release's identity.

As the kernel does, archives are read one after the other, zeros between them are skipped, and a file takes
the place of an earlier one of its name.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from talos.system.errors import UserError
from talos.system.files import flush_folder, replace_durably
from talos.upgrade.release.initramfs import (
    DIGEST,
    DIGESTS,
    EXTENSIONS,
    HEADER,
    IMAGE,
    KEY_SUFFIX,
    LAYERS,
    MAGIC,
    MAX_KEY,
    MAX_KEYS,
    NEEDED,
    RELEASE,
    TRAILER,
)
from talos.upgrade.release.manifest import MAX_FILE, MAX_FILES

WHERE = "initramfs"
OS_RELEASE = f"{RELEASE}/os-release"
KEYS = f"{RELEASE}/keys/"
_MAX_NAME = 256
_MAX_SMALL = max(MAX_KEY, 8192)
"""Bytes of any file but the system image."""
_MAX_LIST = 1 << 18
"""Bytes of ``extensions.yaml``."""
MAX_LAYERS = 32
"""As many as the early init of a machine mounts."""
_DIGEST = re.compile("[0-9a-f]{64}")
_LAYER = re.compile(rf"{EXTENSIONS}/[a-z0-9][a-z0-9.-]{{0,90}}\.sqsh")
_LISTS = {f"{EXTENSIONS}/{DIGESTS}": _MAX_SMALL, f"{EXTENSIONS}/{LAYERS}": _MAX_LIST}
_FIELDS = (HEADER - len(MAGIC)) // 8


@dataclass(frozen=True, slots=True)
class Member:
    """A plain file of an archive; ``content`` is read before the next member."""

    name: str
    size: int
    content: Iterator[bytes]


def unpack_system(pieces: Iterable[bytes], folder: Path) -> dict[str, str]:
    """Write the system image and the folders ``extensions`` and ``release``; the SHA-256 digests by name.

    UserError when the image or an extension does not match the digest beside it; OSError.
    """
    digests: dict[str, str] = {}
    wanted = ""
    for member in read_members(pieces):
        if member.name == DIGEST:
            wanted = _read_small(member).decode("ascii", "replace").strip()
        elif member.name == IMAGE or _LAYER.fullmatch(member.name):
            digests[member.name] = _write(folder, member)
        elif _is_identity(member.name) or member.name in _LISTS:
            _check_small(member, _LISTS.get(member.name, _MAX_SMALL))
            digests[member.name] = _write(folder, member)
    if sum(name.endswith(KEY_SUFFIX) for name in digests) > MAX_KEYS:
        raise _refuse(f"has more than {MAX_KEYS} keys")
    if digests.get(IMAGE) != wanted:
        raise _refuse(f"its system image has the digest {digests.get(IMAGE)}, expected {wanted or 'one'}")
    _check_layers(folder, digests)
    return digests


def read_layers(text: str) -> dict[str, str]:
    """The digests of extensions by their places in the initramfs, in the order of the layers; UserError."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        digest, separator, name = line.partition("  ")
        place = f"{EXTENSIONS}/{name}"
        if not (_DIGEST.fullmatch(digest) and separator and _LAYER.fullmatch(place)) or place in found:
            raise UserError(f"{line[:100]!r} is no digest of a layer", where=f"{EXTENSIONS}/{DIGESTS}")
        found[place] = digest
    if len(found) > MAX_LAYERS:
        raise UserError(f"{len(found)} layers, at most {MAX_LAYERS} are mounted", where=EXTENSIONS)
    return found


def _check_layers(folder: Path, digests: Mapping[str, str]) -> None:
    path = folder / EXTENSIONS / DIGESTS
    wanted = read_layers(path.read_text(encoding="ascii", errors="replace") if path.exists() else "")
    found = {name: digest for name, digest in digests.items() if _LAYER.fullmatch(name)}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise _refuse(f"{name} has the digest {found.get(name)}, expected {wanted.get(name) or 'none'}")


def unpack_release(pieces: Iterable[bytes], folder: Path) -> None:
    """Write the folder ``release`` of an archive without a system image; UserError, OSError.

    Nothing waits for the disk: this is for a folder that is made anew when it is incomplete.
    """
    for member in read_members(pieces):
        if _is_identity(member.name):
            path = folder / member.name
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.write_bytes(_read_small(member))


def _is_identity(name: str) -> bool:
    key = name.removeprefix(KEYS)
    is_key = key != name and "/" not in key and key.endswith(KEY_SUFFIX)
    return is_key or name in (OS_RELEASE, KEYS + NEEDED)


def _check_small(member: Member, maximum: int = _MAX_SMALL) -> None:
    if member.size > maximum:
        raise _refuse(f"{member.name} has {member.size} bytes, at most {maximum} are read")


def _read_small(member: Member) -> bytes:
    _check_small(member)
    return b"".join(member.content)


def _write(folder: Path, member: Member) -> str:
    digest = hashlib.sha256()

    def follow() -> Iterator[bytes]:
        for piece in member.content:
            digest.update(piece)
            yield piece

    path = folder / member.name
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_durably(path, follow(), mode=0o444)
    flush_folder(path.parent.parent)
    return digest.hexdigest()


def read_members(pieces: Iterable[bytes]) -> Iterator[Member]:
    """The plain files of all archives; UserError when they are none."""
    stream = _Stream(pieces)
    for _ in range(4 * MAX_FILES):
        while (start := stream.read(4)) == bytes(4):
            continue
        if not start:
            return
        fields = _parse_header(start + stream.read(HEADER - 4))
        mode, size, length = fields[1], fields[6], fields[11]
        if not 1 < length <= _MAX_NAME or size > MAX_FILE:
            raise _refuse("has a file whose name or content is too long")
        name = stream.read(length).rstrip(b"\0").decode("ascii", "backslashreplace")
        stream.skip(-(HEADER + length) % 4)
        content = stream.pieces(size)
        if stat.S_ISREG(mode) and name != TRAILER:
            yield Member(name, size, content)
        for _ in content:
            continue
        stream.skip(-size % 4)
    raise _refuse("has too many files")


def _parse_header(header: bytes) -> list[int]:
    if header.startswith(MAGIC) and len(header) == HEADER:
        try:
            place = len(MAGIC)
            return [int(header[place + 8 * n : place + 8 * (n + 1)], 16) for n in range(_FIELDS)]
        except ValueError:
            pass
    raise _refuse("is no archive that the kernel unpacks, or ends too early")


class _Stream:
    """Pieces of any size, read by number of bytes."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest: bytes = b""

    def pieces(self, size: int) -> Iterator[bytes]:
        """So many bytes, in pieces; UserError at the end."""
        while size > 0:
            if not self._rest:
                self._rest = next(self._pieces, b"")
                if not self._rest:
                    raise _refuse("ends too early")
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece

    def read(self, size: int) -> bytes:
        """So many bytes; none at the end."""
        if not self._rest:
            self._rest = next(self._pieces, b"")
        return b"".join(self.pieces(size)) if self._rest else b""

    def skip(self, size: int) -> None:
        """Leave so many bytes out."""
        for _ in self.pieces(size):
            continue


def drop_cache(path: Path) -> None:
    """Drop a file from the page cache, so that its next reader reads the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _refuse(text: str) -> UserError:
    return UserError(text, where=WHERE)
