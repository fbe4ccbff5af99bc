"""One log in memory: its newest bytes, in whole lines."""

from collections import deque

from talos.system.wakeup import Signal

CAPACITY = 1024 * 1024
"""Bytes kept of each log."""
CHUNK = 16 * 1024
"""Bytes gathered into one chunk; the overhead of many small ones exceeds their content."""


class LogRing:
    """A ring of bytes, numbered from the start of the log; the oldest are dropped.

    It holds the bytes from ``start`` to ``end``; before them were ``dropped_lines`` lines.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._chunks: deque[bytes] = deque()
        self._last = bytearray()
        self.start = 0
        self.end = 0
        self.dropped_lines = 0
        self._more = Signal()

    def append(self, data: bytes) -> None:
        """Add whole lines."""
        self._last += data
        self.end += len(data)
        if len(self._last) >= CHUNK:
            self._chunks.append(bytes(self._last))
            self._last.clear()
        while self._chunks and self.end - self.start - len(self._chunks[0]) >= self._capacity:
            dropped = self._chunks.popleft()
            self.start += len(dropped)
            self.dropped_lines += dropped.count(b"\n")
        self._more.notify()

    def read(self, position: int) -> tuple[bytes, int]:
        """The chunk at a position, and the position after it.

        Dropped bytes are skipped; the answer is empty at the end.
        """
        offset = self.start
        for chunk in self._chunks:
            if position < offset + len(chunk):
                begin = max(position - offset, 0)
                return chunk[begin:], offset + len(chunk)
            offset += len(chunk)
        begin = max(position - offset, 0)
        return bytes(self._last[begin:]), self.end

    def chunks(self) -> list[bytes]:
        """Everything that it holds."""
        return [*self._chunks, bytes(self._last)] if self._last else list(self._chunks)

    def tail(self, lines: int) -> int:
        """The position from which so many lines follow; negative: the oldest there is."""
        if lines < 0:
            return self.start
        missing = lines + 1  # the newline before the first of them
        position = self.end
        for chunk in (bytes(self._last), *reversed(self._chunks)):
            position -= len(chunk)
            count = chunk.count(b"\n")
            if count < missing:
                missing -= count
                continue
            cut = len(chunk)
            for _ in range(missing):
                cut = chunk.rfind(b"\n", 0, cut)
            return position + cut + 1
        return self.start

    async def wait(self, position: int) -> None:
        """Wait until something follows a position."""
        while position >= self.end:
            await self._more.wait()
