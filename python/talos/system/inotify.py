"""Waiting for changes in a directory: inotify(7)."""

import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

_MOVED_TO, _CLOSE_WRITE = 0x80, 0x8  # linux/inotify.h
_SIZE = 64 * 1024


class DirectoryWatch:
    """Files of a directory that are written, or renamed into it; a context."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Begin to watch; OSError."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if (
            self._descriptor < 0
            or libc.inotify_add_watch(self._descriptor, os.fsencode(self._path), _MOVED_TO | _CLOSE_WRITE) < 0
        ):
            number = ctypes.get_errno()
            self.__exit__(None, None, None)
            raise OSError(number, os.strerror(number), str(self._path))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    async def wait(self) -> None:
        """Wait until something has changed since the last time; several changes are one."""
        await trio.lowlevel.wait_readable(self._descriptor)
        os.read(self._descriptor, _SIZE)
