"""The last changes of one collection, for the watches that follow it."""

from collections import deque

import trio
from google.protobuf.message import Message

from talos.resource.state import Event

CAPACITY = 1024
"""Events kept at most for one type in one namespace; upstream's number."""
GAP = 4
"""Of a full history, the oldest events that no new watch may begin at: writers are about
to drop them. Upstream's number."""


class History:
    """A bounded sequence of events; every event has a position, counted from 0.

    The writer never waits. A reader that fell behind the oldest event kept has lost
    events and must be told so.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._events: deque[Event[Message]] = deque(maxlen=capacity)
        self._capacity = capacity
        self._readers = trio.lowlevel.ParkingLot()
        self.end = 0

    @property
    def start(self) -> int:
        """The position of the oldest event kept."""
        return self.end - len(self._events)

    @property
    def safe_start(self) -> int:
        """The oldest position a new watch may begin at."""
        return self.start + GAP if len(self._events) == self._capacity else self.start

    def append(self, event: Event[Message]) -> None:
        """Add an event and wake the readers."""
        self._events.append(event)
        self.end += 1
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
