"""Connections that are not authenticated yet, and which of them makes room for a new one."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

RECENT = 3600.0
"""Seconds for which a network counts as known after a client in it has authenticated."""

MAX_KNOWN = 1024
"""Networks that are remembered; the one known for longest is forgotten first."""

RESERVED = 16
"""Pending connections of a known network that are not dropped in favour of others."""


class KnownNetworks:
    """Where clients have authenticated lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, float] = OrderedDict()

    def add(self, network: str) -> None:
        """A client in this network has authenticated."""
        self._seen[network] = self._clock()
        self._seen.move_to_end(network)
        if len(self._seen) > MAX_KNOWN:
            self._seen.popitem(last=False)

    def __contains__(self, network: str) -> bool:
        seen = self._seen.get(network)
        return seen is not None and self._clock() - seen < RECENT


@dataclass(slots=True, eq=False)
class Entry:
    """One connection; ``drop`` ends it."""

    network: str
    drop: Callable[[], None]


class Pending:
    """A bounded number of connections in one stage; a new one is never refused.

    When there is no room, the network with the most connections loses its oldest one. Those of
    known networks are the last to go.
    """

    def __init__(self, limit: int, known: KnownNetworks) -> None:
        self._limit = limit
        self._known = known
        self._entries: dict[Entry, None] = {}

    def add(self, network: str, drop: Callable[[], None]) -> Entry:
        """A connection enters the stage; another one may be dropped for it."""
        if len(self._entries) >= self._limit:
            victim = self._choose()
            del self._entries[victim]
            victim.drop()
        entry = Entry(network, drop)
        self._entries[entry] = None
        return entry

    def remove(self, entry: Entry) -> None:
        """A connection leaves the stage, dropped or not."""
        self._entries.pop(entry, None)

    def clear(self) -> None:
        """Drop all connections of the stage."""
        entries, self._entries = self._entries, {}
        for entry in entries:
            entry.drop()

    def _choose(self) -> Entry:
        counts = Counter(entry.network for entry in self._entries)
        protected = {
            network for network, count in counts.items() if count <= RESERVED and network in self._known
        }
        candidates = [entry for entry in self._entries if entry.network not in protected]
        # max() takes the first of equals, and entries are in the order of their arrival.
        return max(candidates or self._entries, key=lambda entry: counts[entry.network])
