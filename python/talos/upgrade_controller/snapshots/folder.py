"""Snapshots in a folder: a volume, or a disk of another machine."""

import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import override

from talos.system.errors import UserError
from talos.system.files import flush_folder
from talos.upgrade_controller.snapshots.destination import NAME, Destination, Upload

_PARTIAL = re.compile(rf"\.{NAME.pattern}\.part", re.ASCII)


@contextmanager
def _explained(where: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        hint = "mount it, make room, and let the controller write there"
        raise UserError(error.strerror or str(error), where=where, hint=hint) from None


class FolderUpload(Upload):
    """A file that gets its name at the end."""

    def __init__(self, path: Path, where: str) -> None:
        self._path, self._partial = path, path.with_name(f".{path.name}.part")
        self._where = where
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.fdopen(os.open(self._partial, flags, 0o600), "wb")

    @override
    def write(self, data: bytes, /) -> None:
        with _explained(self._where):
            self._file.write(data)

    @override
    def commit(self) -> None:
        with _explained(self._where):
            with self._file:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._partial.rename(self._path)
            flush_folder(self._path.parent)

    @override
    def abort(self) -> None:
        with _explained(self._where):
            self._partial.unlink(missing_ok=True)
            self._file.close()


class Folder(Destination):
    """The folder is not made: where a disk is not mounted, it would be another one."""

    def __init__(self, path: Path, *, where: str) -> None:
        self._path, self._where = path, where

    @override
    def begin(self, name: str) -> FolderUpload:
        with _explained(self._where):
            for entry in self._path.iterdir():
                if _PARTIAL.fullmatch(entry.name):  # of a controller that was ended meanwhile
                    entry.unlink()
            return FolderUpload(self._path / name, self._where)

    @override
    def find_names(self) -> Iterable[str]:
        with _explained(self._where):
            return [entry.name for entry in self._path.iterdir()]

    @override
    def remove(self, name: str) -> None:
        with _explained(self._where):
            (self._path / name).unlink()
