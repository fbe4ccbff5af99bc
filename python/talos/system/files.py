"""The kernel's files (/proc, /sys, /etc) through a port, with a twin for tests; writing durably."""

import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, override

from talos.system.errors import UserError

_PIECE = 1 << 20
_TOKEN = 4
"""Random bytes in the name of a file that is being written."""


class Files(Protocol):
    """Small files, read whole. Missing files raise FileNotFoundError, as ``open`` does."""

    def read(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 are replaced."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The bytes of a file."""
        ...

    def read_link(self, path: str) -> str:
        """Where a symbolic link points."""
        ...

    def list(self, path: str) -> Sequence[str]:
        """The names in a directory, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is something of this name, links followed."""
        ...


class KernelFiles(Files):
    """The files of the running system."""

    @override
    def read(self, path: str) -> str:
        return self.read_bytes(path).decode(errors="replace")

    @override
    def read_bytes(self, path: str) -> bytes:
        return Path(path).read_bytes()

    @override
    def read_link(self, path: str) -> str:
        return str(Path(path).readlink())

    @override
    def list(self, path: str) -> Sequence[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 - /proc is listed often, names are enough

    @override
    def exists(self, path: str) -> bool:
        return Path(path).exists()


def read_attribute(files: Files, path: str) -> str:
    """A device's attribute without white space around it; empty when there is none, or the device is gone."""
    try:
        return files.read(path).strip()
    except OSError:
        return ""


def read_file(path: Path | str, size: int = -1) -> bytes:
    """The bytes of a file that a person named, or the first ``size``; UserError when it can't be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from None


def replace_file(path: Path, data: bytes, *, mode: int, folder_mode: int = 0o777) -> None:
    """Write a file that a person named, whole or not at all, and its folder if need be. UserError.

    It is not flushed to the disk; :func:`replace_durably` does that.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=folder_mode, parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"can't be written: {error.strerror}", where=str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def replace_durably(
    path: Path, pieces: Iterable[bytes], *, mode: int = 0o644, owner: int | None = None
) -> None:
    """Write a file as a whole: after a power cut there is the old one, or none, or the new one.

    ``owner`` is the uid and gid of the new one. Its folder is there already. Two that write at the same
    time don't mix: one of them wins. What power cuts left of earlier attempts is removed.

    OSError: such as ENOSPC; the old file is then untouched.
    """
    remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(_TOKEN)}")
    try:
        # vfat refuses to change a mode, so it is given from the beginning.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if owner is not None:
                os.fchown(file.fileno(), owner, owner)
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove what was to become a file and never did: only what is being written is locked."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * _TOKEN}}}")
    for entry in path.parent.iterdir():
        if not name.fullmatch(entry.name):
            continue
        with suppress(OSError), entry.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            entry.unlink()


def read_pieces(path: Path) -> Iterator[bytes]:
    """A file in pieces of which one is in memory at a time."""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def hash_file(path: Path) -> str:
    """The SHA-256 digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
