"""A log's copy on disk, rotated."""

import os
from contextlib import suppress
from pathlib import Path

ROTATE_AT = 5 * 1024 * 1024
"""Bytes after which the file becomes ``<name>.1``, replacing the previous one."""


class LogFile:
    """Appends to a file; write errors, as of a full disk, drop lines and are reported in ``error``."""

    def __init__(self, path: Path, rotate_at: int = ROTATE_AT) -> None:
        self._path = path
        self._rotate_at = rotate_at
        self._fd = -1
        self._size = 0
        self.error = ""

    def write(self, data: bytes) -> None:
        """Append; ``error`` holds the last failure until a write succeeds."""
        try:
            if self._fd < 0:
                self._open()
            if self._size + len(data) > self._rotate_at:
                self._rotate()
            self._size += os.write(self._fd, data)
        except OSError as error:
            self.error = f"{self._path}: {error.strerror}"
        else:
            self.error = ""

    def flush(self) -> None:
        """Have on the disk what was written. Blocks."""
        descriptor = self._fd
        if descriptor < 0:
            return
        with suppress(OSError):  # closed meanwhile, or a broken disk: the next write reports that
            os.fdatasync(descriptor)

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        self.close()
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        self._open()
