"""The last changes of one collection, for the watches that follow it."""

from collections import deque

import trio
from google.protobuf.message import Message

from talos.resource.state import Event

CAPACITY = 1024
"""Events kept at most for one type in one namespace; upstream's number."""
MAX_BYTES = 4 * 1024 * 1024
"""Size of the specs in a history at most, so that one large kind can't fill the memory."""
MIN_EVENTS = 64
"""Events kept whatever their size: a watcher that is served at all must not fall behind."""
GAP = 4
"""The oldest events of a history that has dropped some, which no new watch may begin at:
writers are about to drop them too. Upstream's number."""


class History:
    """A bounded sequence of events; every event has a position, counted from 0.

    The writer never waits. A reader that fell behind the oldest event kept has lost
    events, which ends its watch with an error.
    """

    def __init__(self) -> None:
        self._events: deque[Event[Message]] = deque()
        self._bytes = 0
        self._readers = trio.lowlevel.ParkingLot()
        self.end = 0

    @property
    def start(self) -> int:
        """The position of the oldest event kept."""
        return self.end - len(self._events)

    @property
    def safe_start(self) -> int:
        """The oldest position a new watch may begin at."""
        return self.start + GAP if self.start else 0

    def append(self, event: Event[Message]) -> None:
        """Add an event, drop those over the bounds, wake the readers."""
        self._events.append(event)
        self._bytes += _size(event)
        self.end += 1
        while len(self._events) > CAPACITY or (self._bytes > MAX_BYTES and len(self._events) > MIN_EVENTS):
            self._bytes -= _size(self._events.popleft())
        if self._readers:
            self._readers.unpark_all()

    def at(self, position: int) -> Event[Message]:
        """The event at a position that is still kept."""
        # Counted from the end, where readers usually are: a deque is slow in its middle.
        return self._events[position - self.end]

    async def wait_beyond(self, position: int) -> None:
        """Wait until there is an event at ``position``."""
        while self.end <= position:
            await self._readers.park()


def _size(event: Event[Message]) -> int:
    # The old spec is the new one of the event before.
    return event.resource.spec.ByteSize() if event.resource else 0
