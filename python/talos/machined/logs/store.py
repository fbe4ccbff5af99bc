"""The logs of the node's services: a ring in memory each, and a copy on disk once there is one."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import override

import trio

from talos.api.internal.feed_pb2 import LogPart, LogPlace
from talos.machined.logs.ring import LogRing
from talos.machined.logs.writer import LogWriter
from talos.machined.node.ports.logs import Logs, UnknownLogError
from talos.system.wakeup import Signal

DIRECTORY = Path("/var/log")
AUDIT = "audit"
"""The log of calls that require more than the reader role."""

_RECORD = b'"msg":"audit"'

MAX_READERS = 4
"""Threads that read logs from a disk at once."""
MAX_LINE = 64 * 1024
"""Bytes after which a line without an end is cut."""


class LogStore(Logs):
    """Every log there is, by id."""

    def __init__(self) -> None:
        self._rings: dict[str, LogRing] = {}
        self._writer: LogWriter | None = None
        self._more = Signal()
        self._readers = trio.CapacityLimiter(MAX_READERS)

    @override
    def ids(self) -> Sequence[str]:
        return sorted(self._rings)

    def register(self, id: str) -> None:
        """Create an empty log, so that it is listed."""
        self._rings.setdefault(id, LogRing())

    @override
    def append(self, id: str, data: bytes) -> None:
        self.register(id)
        ring = self._rings[id]
        if self._writer is not None:
            self._writer.write(id, data, LogPlace(bytes=ring.end, lines=ring.lines))
        ring.append(data)
        self._more.notify()

    def open_files(self, directory: Path) -> None:
        """Start to write to disk, with the lines in memory first."""
        writer = self._writer = LogWriter(directory)
        for name, ring in self._rings.items():
            writer.begin(name, _find_start(ring), ring.chunks())

    def flush_files(self) -> None:
        """Have on the disk what was written. Blocks."""
        if self._writer is not None:
            self._writer.flush()

    def read_ends(self, size: int) -> dict[str, bytes]:
        """The newest bytes of each log, at least ``size`` where there are as many."""
        ends: dict[str, bytes] = {}
        for name, ring in self._rings.items():
            parts: list[bytes] = []
            position = max(0, ring.end - size)
            while position < ring.end:
                chunk, position = ring.read(position)
                parts.append(chunk)
            ends[name] = b"".join(parts)
        return ends

    def find_ends(self) -> dict[str, LogPlace]:
        """Where each log ends now."""
        return {name: LogPlace(bytes=ring.end, lines=ring.lines) for name, ring in self._rings.items()}

    def close_files(self) -> bool:
        """Close all files, so that the disk can be unmounted; False when it takes nothing more. Blocks."""
        writer, self._writer = self._writer, None
        return writer is None or writer.close()

    @override
    @asynccontextmanager
    async def read(
        self, id: str, *, follow: bool = False, tail_lines: int = -1
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """What a log holds; see :meth:`talos.machined.node.ports.logs.Logs.read`."""
        ring = self._rings.get(id)
        if ring is None:
            raise UnknownLogError(id)
        async with aclosing(_iterate(ring, ring.tail(tail_lines), follow=follow)) as chunks:
            yield chunks

    async def follow_all(self, places: Mapping[str, LogPlace]) -> AsyncGenerator[LogPart]:
        """What all logs hold, each from a place on, then what comes; a log without a place from its start.

        What memory no longer holds is read from the disk.
        """
        left = dict(places)
        while True:
            is_complete = True
            for name, ring in sorted(self._rings.items()):
                place = left.get(name) or _find_start(ring)
                if place.bytes >= ring.end:
                    continue
                is_complete = False
                saved = await self._read_file(name, place) if place.bytes < ring.start else None
                is_older = saved is not None and saved.place.bytes - len(saved.lines) < ring.start
                part = saved if saved is not None and is_older else _read_ring(ring, place)
                part.id = name
                left[name] = part.place
                yield part
            if is_complete:
                await self._more.wait()

    async def _read_file(self, id: str, after: LogPlace) -> LogPart | None:
        """The next lines that are on the disk; a disk that stands still holds up nothing but this."""
        if self._writer is None:
            return None
        return await trio.to_thread.run_sync(
            self._writer.read, id, after, abandon_on_cancel=True, limiter=self._readers
        )


def _find_start(ring: LogRing) -> LogPlace:
    """The place of the oldest line in memory."""
    return LogPlace(bytes=ring.start, lines=ring.dropped_lines)


def _read_ring(ring: LogRing, after: LogPlace) -> LogPart:
    """The next lines that memory holds, and how many it has dropped before them."""
    missed = 0
    if after.bytes < ring.start:
        missed = max(0, ring.dropped_lines - after.lines)
        after = _find_start(ring)
    lines, end = ring.read(after.bytes)
    place = LogPlace(bytes=end, lines=after.lines + lines.count(b"\n"))
    return LogPart(lines=lines, place=place, missed=missed)


async def _iterate(ring: LogRing, position: int, *, follow: bool) -> AsyncGenerator[bytes]:
    while True:
        chunk, position = ring.read(position)
        if chunk:
            yield chunk
        elif not follow:
            return
        else:
            await ring.wait(position)


def split_records(lines: bytes) -> tuple[bytes, bytes]:
    """The records of calls among whole lines, and the other lines.

    In JSON no text can hold the mark: its quotation marks would be escaped.
    """
    if _RECORD not in lines:
        return b"", lines
    records: list[bytes] = []
    others: list[bytes] = []
    for line in lines.splitlines(keepends=True):
        (records if _RECORD in line else others).append(line)
    return b"".join(records), b"".join(others)


class LineSplitter:
    """Cuts what a pipe delivers into whole lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """The whole lines that are complete now; may be empty."""
        lines, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > MAX_LINE:
            return lines + newline + self.finish()
        return lines + newline

    def finish(self) -> bytes:
        """The unfinished line at the end, finished."""
        rest, self._rest = self._rest, b""
        return rest + b"\n" if rest else b""
