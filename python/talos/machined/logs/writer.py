"""Writing logs to a disk in a thread: a disk that is slow, or stands still, holds nothing up."""

import json
import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from talos.api.internal.feed_pb2 import LogPart, LogPlace
from talos.machined.logs.file import LogFile

MAX_WAITING = 4 * 1024 * 1024
"""Bytes that wait to be written; further lines are dropped from the files and counted."""
FLUSH_TIMEOUT = 20.0
"""Seconds until what waits is on the disk, else it is given up."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines that wait to be written; ``counted`` bytes of them are within the limit."""

    id: str
    data: bytes
    place: LogPlace | None
    """Of a log's own lines."""
    counted: int


class LogWriter:
    """Appends to the files of a folder, one for each log. Its methods but ``read`` are for one thread."""

    def __init__(self, folder: Path, max_waiting: int = MAX_WAITING) -> None:
        self._folder = folder
        self._max_waiting = max_waiting
        self._files: dict[str, LogFile] = {}
        self._waiting: deque[_Part] = deque()
        self._size = 0
        self._dropped = Counter[str]()
        self._flushed: list[threading.Event] = []
        self._has_ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    def begin(self, id: str, place: LogPlace, chunks: Iterable[bytes]) -> None:
        """Append what a log holds in memory already, from a place on, however much that is."""
        with self._changed:
            for chunk in chunks:
                self._waiting.append(_Part(id, chunk, place, counted=0))
                place = LogPlace(bytes=place.bytes + len(chunk), lines=place.lines + chunk.count(b"\n"))
            self._changed.notify()

    def write(self, id: str, data: bytes, place: LogPlace) -> None:
        """Append lines to a log's file soon; ``place`` is where they are in the log."""
        with self._changed:
            if self._size + len(data) > self._max_waiting:
                self._dropped[id] += data.count(b"\n")
                return
            if dropped := self._dropped.pop(id, 0):
                self._put(id, _make_note(dropped), None)
            self._put(id, data, place)
            self._changed.notify()

    def read(self, id: str, after: LogPlace) -> LogPart | None:
        """The next lines of a log behind a place that are on the disk; None without any. Blocks."""
        file = self._files.get(id)
        return None if file is None else file.read(after)

    def flush(self, timeout: float = FLUSH_TIMEOUT) -> bool:
        """Have on the disk what was written so far; False when that takes too long. Blocks."""
        flushed = threading.Event()
        with self._changed:
            self._flushed.append(flushed)
            self._changed.notify()
        return flushed.wait(timeout)

    def close(self, timeout: float = FLUSH_TIMEOUT) -> bool:
        """Write what waits and close all files; False when that takes too long. Blocks."""
        with self._changed:
            self._has_ended = True
            for name, dropped in self._dropped.items():
                self._put(name, _make_note(dropped), None)
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _put(self, id: str, data: bytes, place: LogPlace | None) -> None:
        self._waiting.append(_Part(id, data, place, counted=len(data)))
        self._size += len(data)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._flushed or self._has_ended):
                    self._changed.wait()
                part = self._waiting.popleft() if self._waiting else None
                flushed: list[threading.Event] = []
                if part is None:
                    flushed, self._flushed = self._flushed, []
            if part is not None:
                self._append(part)
                continue
            for file in self._files.values() if flushed else ():
                file.flush()
            for event in flushed:
                event.set()
            if self._has_ended and not self._waiting:
                break
        for file in self._files.values():
            file.close()

    def _append(self, part: _Part) -> None:
        if part.id not in self._files:
            self._files[part.id] = LogFile(self._folder / f"{part.id}.log")
        self._files[part.id].write(part.data, part.place)
        with self._changed:
            self._size -= part.counted


def _make_note(dropped: int) -> bytes:
    message = f"{dropped} lines are missing here: the disk was too slow"
    return json.dumps({"level": "warning", "msg": message}).encode() + b"\n"
