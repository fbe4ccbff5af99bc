"""The last changes of one collection, for the watches that follow it."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

import trio
from google.protobuf.message import Message

from talos.resource.memory.usage import Usage
from talos.resource.state import Event

CAPACITY = 1024
"""Events kept at most for one type in one namespace; upstream's number."""
MAX_BYTES = 4 * 1024 * 1024
"""Size of the resources in a history at most, so that one large kind can't fill the memory. The newest event
is kept whatever its size. A watcher that fell behind begins anew.
"""
GAP = 4
"""The oldest events of a history that has dropped some, which no new watch may begin at:
writers are about to drop them too. Upstream's number."""


@dataclass(slots=True, eq=False)
class _Waiter:
    """Who waits for the next event of one resource, which is at ``position``."""

    woken: trio.Event = field(default_factory=trio.Event)
    position: int = 0


class History:
    """A bounded sequence of events; every event has a position, counted from 0.

    The writer never waits. A reader that fell behind the oldest event kept has lost
    events, which ends its watch with an error.
    """

    def __init__(self, usage: Usage) -> None:
        self._events: deque[tuple[Event[Message], int]] = deque()
        self._readers = trio.lowlevel.ParkingLot()
        self._waiters: defaultdict[str, list[_Waiter]] = defaultdict(list)
        """By the id of the resource that they wait for."""
        self._usage = usage
        self.size = 0
        self.end = 0
        usage.add_history(self)

    @property
    def start(self) -> int:
        """The position of the oldest event kept."""
        return self.end - len(self._events)

    @property
    def safe_start(self) -> int:
        """The oldest position a new watch may begin at."""
        return self.start + GAP if self.start else 0

    def append(self, event: Event[Message], size: int) -> None:
        """Add an event whose resource takes ``size`` bytes, drop those over the bounds, wake the readers."""
        self._events.append((event, size))
        self._count(size)
        self.end += 1
        while len(self._events) > CAPACITY or (self.size > MAX_BYTES and len(self._events) > 1):
            self.drop_oldest()
        if self._readers:
            self._readers.unpark_all()
        if event.resource is not None and event.resource.id in self._waiters:
            for waiter in self._waiters.pop(event.resource.id):
                waiter.position = self.end - 1
                waiter.woken.set()

    def drop_oldest(self) -> bool:
        """Drop the oldest event; False when only one is left."""
        if len(self._events) < 2:
            return False
        self._count(-self._events.popleft()[1])
        return True

    def _count(self, change: int) -> None:
        self.size += change
        self._usage.count_history(change)

    def at(self, position: int) -> Event[Message]:
        """The event at a position that is still kept."""
        # Counted from the end, where readers usually are: a deque is slow in its middle.
        return self._events[position - self.end][0]

    async def wait_beyond(self, position: int) -> None:
        """Wait until there is an event at ``position``."""
        while self.end <= position:
            await self._readers.park()

    async def wait_for(self, id: str) -> int:
        """Wait until there is an event of a resource, the first from now on; its position.

        Events of others neither wake who waits nor let them fall behind.
        """
        waiter = _Waiter()
        self._waiters[id].append(waiter)
        try:
            await waiter.woken.wait()
        finally:
            if not waiter.woken.is_set():
                self._leave(id, waiter)
        return waiter.position

    def _leave(self, id: str, waiter: _Waiter) -> None:
        self._waiters[id].remove(waiter)
        if not self._waiters[id]:
            del self._waiters[id]
