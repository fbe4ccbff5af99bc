"""The node's event log."""

import itertools
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import override

from google.protobuf.message import Message

from talos.machined.node.ports.logs import Event, Events
from talos.system.wakeup import Signal

CAPACITY = 1000
"""Events kept."""
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"


class EventLog(Events):
    """A ring of the newest events, and their followers."""

    def __init__(self, capacity: int = CAPACITY, now: Callable[[], float] = time.time) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._xids = XidGenerator()
        self._now = now
        self._next = 0  # events published
        self._more = Signal()

    @override
    def make_id(self) -> str:
        return self._xids.make(self._now())

    @override
    def publish(self, payload: Message, *, actor_id: str = "") -> Event:
        now = self._now()
        self._next += 1
        event = Event(
            id=self._xids.make(now), number=self._next, time=now, actor_id=actor_id, payload=payload
        )
        self._events.append(event)
        self._more.notify()
        return event

    @override
    @asynccontextmanager
    async def follow(
        self, *, tail: int = 0, after_id: str = "", seconds: float = 0.0, actor_id: str = ""
    ) -> AsyncGenerator[AsyncIterator[Event]]:
        """Events from now on; see :meth:`talos.machined.node.ports.logs.Events.follow`."""
        past = list(self._events)
        if seconds > 0:
            past = [event for event in past if event.time >= self._now() - seconds]
        elif after_id:
            past = [event for event in past if event.id > after_id]
        elif tail >= 0:
            past = past[len(past) - min(tail, len(past)) :]
        past = [event for event in past if actor_id in ("", event.actor_id)]
        async with aclosing(self._iterate(past, self._next, actor_id)) as events:
            yield events

    async def _iterate(self, past: list[Event], position: int, actor_id: str) -> AsyncGenerator[Event]:
        for event in past:
            yield event
        while True:
            # The ring may have dropped events that a slow follower has not read.
            position = max(position, self._next - len(self._events))
            if position == self._next:
                await self._more.wait()
                continue
            event = self._events[position - self._next]
            position += 1
            if actor_id in ("", event.actor_id):
                yield event


class XidGenerator:
    """Ids of 12 bytes that sort by time, in base32 with the digits 0-9a-v.

    Seconds (4 bytes), a random machine id (3), the process id (2), a counter (3).
    """

    def __init__(self) -> None:
        self._middle = os.urandom(3) + (os.getpid() & 0xFFFF).to_bytes(2)
        self._counter = itertools.count(int.from_bytes(os.urandom(2)))

    def make(self, now: float | None = None) -> str:
        """The next id; ``now`` in seconds since the epoch."""
        seconds = int(time.time() if now is None else now)
        number = next(self._counter) & 0xFFFFFF
        return encode(seconds.to_bytes(4) + self._middle + number.to_bytes(3))


def encode(raw: bytes) -> str:
    """The 20 characters for 12 bytes."""
    number = int.from_bytes(raw) << 4  # 96 bits, padded to 100
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(95, -1, -5))
