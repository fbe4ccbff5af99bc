"""One log in memory: its newest bytes, in whole lines, compressed but for the end."""

import zlib
from collections import deque
from dataclasses import dataclass

from talos.system.wakeup import Signal

CAPACITY = 1024 * 1024
"""Bytes kept of each log, as they were before compression."""
CHUNK = 16 * 1024
"""Bytes gathered into one chunk; the overhead of many small ones exceeds their content."""
FASTEST = 1
"""The level of zlib: what services log costs little time, and text shrinks several times at any level."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines, compressed."""

    compressed: bytes
    size: int
    lines: int

    @classmethod
    def compress(cls, data: bytes | bytearray) -> "Chunk":
        """Make one of these bytes."""
        return cls(zlib.compress(data, FASTEST), len(data), data.count(b"\n"))

    def read(self) -> bytes:
        """What it holds."""
        return zlib.decompress(self.compressed)


class LogRing:
    """A ring of bytes, numbered from the start of the log; the oldest are dropped.

    It holds the bytes from ``start`` to ``end``; before them were ``dropped_lines`` and ``lines`` lines.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._chunks: deque[Chunk] = deque()
        self._last = bytearray()
        self.start = 0
        self.end = 0
        self.dropped_lines = 0
        self.lines = 0
        self._more = Signal()

    def append(self, data: bytes) -> None:
        """Add whole lines."""
        self._last += data
        self.end += len(data)
        self.lines += data.count(b"\n")
        if len(self._last) >= CHUNK:
            self._chunks.append(Chunk.compress(self._last))
            self._last.clear()
        while self._chunks and self.end - self.start - self._chunks[0].size >= self._capacity:
            dropped = self._chunks.popleft()
            self.start += dropped.size
            self.dropped_lines += dropped.lines
        self._more.notify()

    def read(self, position: int) -> tuple[bytes, int]:
        """The chunk at a position, and the position after it.

        Dropped bytes are skipped; the answer is empty at the end.
        """
        offset = self.start
        for chunk in self._chunks:
            if position < offset + chunk.size:
                begin = max(position - offset, 0)
                return chunk.read()[begin:], offset + chunk.size
            offset += chunk.size
        begin = max(position - offset, 0)
        return bytes(self._last[begin:]), self.end

    def chunks(self) -> list[bytes]:
        """Everything that it holds."""
        held = [chunk.read() for chunk in self._chunks]
        return [*held, bytes(self._last)] if self._last else held

    def tail(self, lines: int) -> int:
        """The position from which so many lines follow; negative: the oldest there is."""
        if lines < 0:
            return self.start
        missing = lines + 1  # the newline before the first of them
        position = self.end - len(self._last)
        if (count := self._last.count(b"\n")) >= missing:
            return position + _find_tail(bytes(self._last), missing)
        missing -= count
        for chunk in reversed(self._chunks):
            position -= chunk.size
            if chunk.lines >= missing:
                return position + _find_tail(chunk.read(), missing)
            missing -= chunk.lines
        return self.start

    async def wait(self, position: int) -> None:
        """Wait until something follows a position."""
        while position >= self.end:
            await self._more.wait()


def _find_tail(data: bytes, newlines: int) -> int:
    """Where what follows the last but so many newlines begins."""
    cut = len(data)
    for _ in range(newlines):
        cut = data.rfind(b"\n", 0, cut)
    return cut + 1
