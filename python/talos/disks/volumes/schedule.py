"""Trims and checks of filesystems at intervals: of which volumes, and when."""

import math
from collections.abc import Iterable, Mapping

from talos.api.definitions import block_pb2
from talos.api.timestamps import make_duration
from talos.config.documents.block.filesystem_scrub import FilesystemScrubConfig
from talos.config.documents.block.filesystem_trim import FilesystemTrimConfig
from talos.config.documents.block.volume_schedule import ScrubConfig, TrimConfig
from talos.config.model import Config

SCRUB_INTERVAL = 168 * 3600
"""Seconds between two checks of a volume whose own settings have no interval."""
MAX_WAIT = 3600.0
"""Seconds after which the clock is read again."""
_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1
"""Of the hash FNV-1a with 64 bits: draft-eastlake-fnv, section 5."""


def set_trim(spec: block_pb2.VolumeConfigSpec, own: TrimConfig | None, config: Config) -> None:
    """Whether and how often a volume is trimmed: by its own settings, else by those of all."""
    everywhere = config.find(FilesystemTrimConfig)
    interval = (own and own.interval) or (everywhere and everywhere.interval)
    is_off = own is not None and own.enabled is False
    if is_off or not interval or interval.seconds <= 0:
        return
    spec.trim_enabled = True
    spec.trim_interval.CopyFrom(make_duration(interval.seconds))


def set_scrub(spec: block_pb2.VolumeConfigSpec, own: ScrubConfig | None, config: Config) -> None:
    """Whether and how often a volume is checked: by its own settings, else by those of all."""
    everywhere = config.find(FilesystemScrubConfig)
    interval = (own and own.interval) or (everywhere and everywhere.interval)
    seconds = interval.seconds if interval else SCRUB_INTERVAL if own else 0
    if seconds <= 0 or (own is not None and own.enabled is False):
        return
    spec.scrub_enabled = True
    spec.scrub_interval.CopyFrom(make_duration(seconds))


class Schedule:
    """When each of some volumes is due next. All in nanoseconds, times since 1970."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, int], int] = {}

    def find_due(self, intervals: Mapping[str, int], now: int) -> list[str]:
        """The volumes that are due; by their names, with their intervals."""
        return [
            name for name, interval in intervals.items() if self._due.get((name, interval), now + 1) <= now
        ]

    def finish(self, names: Iterable[str], intervals: Mapping[str, int]) -> None:
        """Record that these were done, with or without success."""
        for name in names:
            self._due.pop((name, intervals[name]), None)

    def plan(self, node: str, intervals: Mapping[str, int], now: int) -> None:
        """Plan the next time of those that have none, or one too far ahead, as the clock was set.

        One that has become due meanwhile keeps its time. What was due while the node was off is left out.
        """
        before, self._due = self._due, {}
        for name, interval in intervals.items():
            due = before.get((name, interval))
            if due is None or due > now + interval:
                due = find_next(node, name, interval, now)
            self._due[name, interval] = due

    def next(self, name: str, interval: int) -> int:
        """The next time of a volume that was planned."""
        return self._due[name, interval]

    def find_wait(self, now: int) -> float:
        """Seconds until the first of them, or until the clock has to be read again: it may be set."""
        seconds = [(due - now) / 1e9 for due in self._due.values()]
        return max(0.0, min(MAX_WAIT, *seconds)) if seconds else math.inf


def find_next(node: str, volume: str, interval: int, now: int) -> int:
    """When a volume is due next, after ``now``; all in nanoseconds, times since 1970.

    Nodes and volumes are spread over the interval, in upstream's way: at the hash of both.
    """
    offset = _hash(f"{node}/{volume}".encode()) % interval
    return (now - offset) // interval * interval + interval + offset


def _hash(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value
