"""Answers that still hold, bounded by number and by bytes; the one that was used longest ago makes room."""

from collections import OrderedDict
from dataclasses import dataclass

from talos.dnsd.message import Reply

MAX_ENTRIES = 4096
MAX_BYTES = 4 << 20
MAX_ENTRY_BYTES = 16 << 10
"""Bytes: a larger answer is passed on and not kept."""
MAX_TTL = 3600
"""A name is queried again after an hour, whatever its lifetime."""


@dataclass(frozen=True, slots=True)
class _Entry:
    reply: Reply
    since: float
    until: float


class Cache:
    """Times are seconds of one clock that only goes forward."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes, now: float) -> tuple[Reply, int] | None:
        """An answer and its age in whole seconds."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now >= entry.until:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.reply, int(now - entry.since)

    def add(self, key: bytes, reply: Reply, now: float) -> None:
        """Keep an answer for as long as it holds."""
        if not reply.seconds or len(reply.data) > MAX_ENTRY_BYTES:
            return
        self._drop(key)
        self._entries[key] = _Entry(reply, now, now + min(reply.seconds, MAX_TTL))
        self._bytes += len(key) + len(reply.data)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Forget all: other servers may answer otherwise."""
        self._entries.clear()
        self._bytes = 0

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(key) + len(entry.reply.data)
