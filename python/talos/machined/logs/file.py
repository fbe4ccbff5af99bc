"""A log's copy on disk, rotated."""

import errno
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from talos.api.internal.feed_pb2 import LogPart, LogPlace
from talos.machined.logs.spans import Span, Spans
from talos.system.regular import read_regular

ROTATE_AT = 5 * 1024 * 1024
"""Bytes after which the file becomes ``<name>.1``, replacing the previous one."""
MAX_PART = 128 * 1024
"""Bytes that are read at once; more than a line has."""


class LogFile:
    """Appends to a file; write errors, as of a full disk, drop lines and are reported in ``error``.

    One thread writes; others may read meanwhile.
    """

    def __init__(self, path: Path, rotate_at: int = ROTATE_AT) -> None:
        self._path = path
        self._rotate_at = rotate_at
        self._fd = -1
        self._size = 0
        self._generation = 0
        self._spans = Spans()
        self._lock = threading.Lock()
        self.error = ""

    def write(self, data: bytes, place: LogPlace | None = None) -> None:
        """Append; ``error`` holds the last failure until a write succeeds.

        ``place`` is where the lines are in the log, by which they can be read.
        """
        try:
            with self._lock:
                self._write(data, place)
        except OSError as error:
            self.error = f"{self._path}: {error.strerror}"
        else:
            self.error = ""

    def read(self, after: LogPlace) -> LogPart | None:
        """The next lines of the log behind a place that are in the files; None without any. Blocks."""
        with self._lock:
            for span in self._spans.find(after.bytes):
                position = max(after.bytes, span.start)
                lines = self._read(span, position)
                if lines:
                    missed = max(0, span.lines - after.lines) if span.start > after.bytes else 0
                    had = after.lines + missed
                    place = LogPlace(bytes=position + len(lines), lines=had + lines.count(b"\n"))
                    return LogPart(lines=lines, place=place, missed=missed)
        return None

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

    @property
    def _previous(self) -> Path:
        return self._path.with_name(self._path.name + ".1")

    def _write(self, data: bytes, place: LogPlace | None) -> None:
        if self._fd < 0:
            self._open()
        if self._size + len(data) > self._rotate_at:
            self._rotate()
        written = os.write(self._fd, data)
        if place is not None and written == len(data):
            self._spans.add(place, written, generation=self._generation, offset=self._size)
        self._size += written

    def _read(self, span: Span, position: int) -> bytes:
        """Whole lines of a span, from a position of the log on; none when its file can't be read."""
        path = self._path if span.generation == self._generation else self._previous
        skipped = position - span.start
        data = read_regular(path, span.offset + skipped, min(MAX_PART, span.size - skipped)) or b""
        return data[: data.rfind(b"\n") + 1]

    def _open(self) -> None:
        # A pod that collects logs may have put a pipe in its place, whose other end is never opened.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no file")
        self._fd, self._size = descriptor, status.st_size

    def _rotate(self) -> None:
        self.close()
        self._path.replace(self._previous)
        self._generation += 1
        self._spans.forget(self._generation - 1)
        self._open()
