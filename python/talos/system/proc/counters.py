"""``/proc/diskstats`` and ``/proc/net/dev``: counters per disk and per interface."""

from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """One block device. A sector is 512 bytes, times are in ms (Documentation/admin-guide/iostats)."""

    name: str = ""
    read_completed: int = 0
    read_merged: int = 0
    read_sectors: int = 0
    read_time_ms: int = 0
    write_completed: int = 0
    write_merged: int = 0
    write_sectors: int = 0
    write_time_ms: int = 0
    io_in_progress: int = 0
    io_time_ms: int = 0
    io_time_weighted_ms: int = 0
    discard_completed: int = 0
    discard_merged: int = 0
    discard_sectors: int = 0
    discard_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounters:
    """One network interface, in the order of the file."""

    name: str = ""
    rx_bytes: int = 0
    rx_packets: int = 0
    rx_errors: int = 0
    rx_dropped: int = 0
    rx_fifo: int = 0
    rx_frame: int = 0
    rx_compressed: int = 0
    rx_multicast: int = 0
    tx_bytes: int = 0
    tx_packets: int = 0
    tx_errors: int = 0
    tx_dropped: int = 0
    tx_fifo: int = 0
    tx_collisions: int = 0
    tx_carrier: int = 0
    tx_compressed: int = 0


def _make[T: (DiskCounters, LinkCounters)](kind: type[T], name: str, numbers: Iterable[str | int]) -> T:
    names = [field.name for field in fields(kind)][1:]
    return kind(name=name, **{key: int(value) for key, value in zip(names, numbers, strict=False)})


def parse_diskstats(text: str) -> list[DiskCounters]:
    """The devices in the text of ``/proc/diskstats``; kernels before 4.18 had no discards: zeros."""
    lines = (line.split() for line in text.splitlines())
    return [_make(DiskCounters, fields[2], fields[3:]) for fields in lines if len(fields) >= 14]


def parse_netdev(text: str) -> list[LinkCounters]:
    """The interfaces in the text of ``/proc/net/dev``, whose first two lines are titles."""
    found: list[LinkCounters] = []
    for line in text.split("\n")[2:]:
        # The name may touch its first number, and may hold a colon itself.
        name, colon, rest = line.rpartition(":")
        if colon:
            found.append(_make(LinkCounters, name.strip(), rest.split()))
    return found


def sum_counters[T: (DiskCounters, LinkCounters)](kind: type[T], name: str, counters: Iterable[T]) -> T:
    """One row with the sums of all others."""
    names = [field.name for field in fields(kind)][1:]
    rows = list(counters)
    return _make(kind, name, [sum(getattr(row, key) for row in rows) for key in names])
