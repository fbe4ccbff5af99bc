"""Ranges of addresses, as numbers of one version of IP: which of them are taken."""

import ipaddress
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

from talos.api.addresses import make_prefix
from talos.api.common.common_pb2 import NetIPPrefix

type Range = tuple[int, int]
"""First and last address."""


@dataclass(slots=True)
class Claims:
    """What is taken: ranges in order, apart from each other."""

    ranges: list[Range] = field(default_factory=list[Range])

    def take(self, wanted: Iterable[Range]) -> list[Range]:
        """Take what is free of each range; it is returned."""
        taken: list[Range] = []
        for one in wanted:
            for part in [*self.find_free(one)]:
                self.ranges.insert(bisect_left(self.ranges, part), part)
                taken.append(part)
        return taken

    def find_free(self, wanted: Range) -> Iterator[Range]:
        """The parts of a range that are not taken."""
        low, high = wanted
        for taken_low, taken_high in self._overlaps(wanted):
            if taken_low > low:
                yield low, taken_low - 1
            low = taken_high + 1
        if low <= high:
            yield low, high

    def _overlaps(self, wanted: Range) -> Iterator[Range]:
        low, high = wanted
        place = max(bisect_left(self.ranges, (low, low)) - 1, 0)
        for taken in self.ranges[place:]:
            if taken[0] > high:
                return
            if taken[1] >= low:
                yield taken


def read_ranges(prefixes: Iterable[NetIPPrefix], version: int) -> list[Range]:
    """Those of a version of IP, in order, those that touch as one."""
    networks = [ipaddress.ip_network((one.ip, one.prefix_length), strict=False) for one in prefixes]
    return merge(
        (int(one.network_address), int(one.broadcast_address)) for one in networks if one.version == version
    )


def merge(ranges: Iterable[Range]) -> list[Range]:
    """In order, those that touch as one."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def make_prefixes(ranges: Iterable[Range], version: int) -> Iterator[NetIPPrefix]:
    """As few as possible."""
    for low, high in ranges:
        if version == 4:
            networks = ipaddress.summarize_address_range(IPv4Address(low), IPv4Address(high))
        else:
            networks = ipaddress.summarize_address_range(IPv6Address(low), IPv6Address(high))
        yield from map(make_prefix, networks)
