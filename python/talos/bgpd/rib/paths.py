"""Paths to networks, and which of several is the best (RFC 4271, section 9.1.2)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from talos.bgpd.messages.as_paths import find_neighbor, measure
from talos.bgpd.messages.attributes import Attributes
from talos.bgpd.messages.prefixes import Address
from talos.bgpd.messages.update import NextHop

LOCAL_PREF = 100
"""Of paths that come without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A session with a peer from which paths come. ``link`` is where the peer is, if it is on one."""

    number: int
    """Each session has its own."""
    address: Address
    router_id: IPv4Address
    is_internal: bool
    link: str = ""
    asns: frozenset[int] = frozenset()
    """The own numbers: a path with one of them has been here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way to a network."""

    source: Source
    next_hop: NextHop
    attributes: Attributes


def select(paths: Iterable[Path]) -> Sequence[Path]:
    """The best path, followed by those that are as good but for what only breaks ties."""
    found = list(paths)
    if len(found) < 2:
        return found
    found = _keep_lowest(found, lambda path: -_local_pref(path))
    found = _keep_lowest(found, lambda path: measure(path.attributes.as_path))
    found = _keep_lowest(found, lambda path: path.attributes.origin)
    found = _compare_meds(found)
    found = _keep_lowest(found, lambda path: path.source.is_internal)
    return sorted(found, key=lambda path: (path.source.router_id, path.source.address.packed))


def _local_pref(path: Path) -> int:
    value = path.attributes.local_pref
    return LOCAL_PREF if value is None else value


def _keep_lowest(paths: list[Path], rank: Callable[[Path], int]) -> list[Path]:
    lowest = min(map(rank, paths))
    return [path for path in paths if rank(path) == lowest]


def _compare_meds(paths: list[Path]) -> list[Path]:
    """MEDs compare among the paths of one neighbouring system only; none is 0."""
    groups: defaultdict[int, list[Path]] = defaultdict(list)
    for path in paths:
        groups[find_neighbor(path.attributes.as_path)].append(path)
    return [
        path
        for group in groups.values()
        for path in _keep_lowest(group, lambda path: path.attributes.med or 0)
    ]
