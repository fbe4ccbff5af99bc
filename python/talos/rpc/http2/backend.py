"""How the user of a stream waits: asyncio's way here, trio's in :mod:`talos.rpc.bridge`.

A workstation's client has asyncio only, and importing trio takes as long as its call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class Event(Protocol):
    """What asyncio's and trio's events have in common."""

    def set(self) -> object:
        """Wake all that wait."""
        ...

    def wait(self) -> Awaitable[object]:
        """Wait until it is set."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncBackend:
    """How the user of a stream waits: asyncio's way or trio's."""

    event: Callable[[], Event]
    sleep: Callable[[float], Awaitable[object]]


ASYNCIO = AsyncBackend(event=asyncio.Event, sleep=asyncio.sleep)
