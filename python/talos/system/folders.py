"""Folders on a disk that others write to, made and opened without following links that they left there."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o777


def make_folder(path: Path, mode: int, *, owner: int | None = None) -> None:
    """Make a folder, or set mode and owner of the one that is there. OSError.

    ``owner`` is its uid and gid. A link in the way, wherever it leads, gives place to a folder.
    """
    with opening_folder(path) as place:
        if owner is not None:
            os.fchown(place, owner, owner)
        os.fchmod(place, mode)


@contextmanager
def opening_folder(path: Path, mode: int = _MODE, *, within: int | Path | None = None) -> Generator[int]:
    """The descriptor of a folder, which is made if it isn't there; links in the way are removed. OSError.

    ``path`` is absolute, or below the folder ``within``, which is there already. ``mode`` is that of folders
    which are made, less what the process masks.
    """
    place = os.dup(within) if isinstance(within, int) else os.open(within or "/", _FOLDER)
    try:
        for name in path.parts[1:] if within is None else path.parts:
            outer, place = place, _enter(place, name, mode)
            os.close(outer)
        yield place
    finally:
        os.close(place)


def _enter(place: int, name: str, mode: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=place)
    except FileNotFoundError:
        pass
    except OSError:
        if not stat.S_ISLNK(os.lstat(name, dir_fd=place).st_mode):
            raise
        os.unlink(name, dir_fd=place)
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=place)
    return os.open(name, _FOLDER, dir_fd=place)
