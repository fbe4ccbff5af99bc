"""Locks that delay a shutdown: the node ends when each of them is released, or the time for it is over.

A lock is the writing end of a pipe. It is released when its holder closes it, or ends.
https://systemd.io/INHIBITOR_LOCKS/
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import trio

from talos.system.wakeup import Signal

MAX_LOCKS = 16
"""The kubelet holds one, for a moment two."""


class TooManyLocksError(Exception):
    """Nothing may hold one more lock."""


class ShutdownBegunError(Exception):
    """It is too late for a lock: the node is ending already."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lock:
    """One lock. ``who`` and ``why`` are its holder's words."""

    who: str
    why: str
    reading: int


class Inhibitors:
    """The locks there are, and whether the node is ending."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._locks: set[Lock] = set()
        self._changed = Signal()
        self._announce: set[Callable[[], None]] = set()
        self.is_ending = False

    def take(self, who: str, why: str) -> int:
        """A new lock: the descriptor to pass to its holder. TooManyLocksError, ShutdownBegunError."""
        if self.is_ending:
            raise ShutdownBegunError
        if len(self._locks) >= MAX_LOCKS:
            raise TooManyLocksError
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        lock = Lock(who=who, why=why, reading=reading)
        self._locks.add(lock)
        self._nursery.start_soon(self._follow, lock)
        return writing

    async def _follow(self, lock: Lock) -> None:
        try:
            # Nothing is ever written to it: it becomes readable when the other end is closed.
            await trio.lowlevel.wait_readable(lock.reading)
        finally:
            self._locks.discard(lock)
            os.close(lock.reading)
            self._changed.notify()

    def subscribe(self, announce: Callable[[], None]) -> None:
        """Have something called when the node begins to end; at once when it does so already."""
        self._announce.add(announce)
        if self.is_ending:
            announce()

    def unsubscribe(self, announce: Callable[[], None]) -> None:
        """End a subscription."""
        self._announce.discard(announce)

    async def end(self, seconds: float) -> list[str]:
        """Announce that the node ends, and wait until nothing holds a lock: who does so after the time."""
        self.is_ending = True
        for announce in tuple(self._announce):
            announce()
        with trio.move_on_after(seconds):
            while self._locks:
                await self._changed.wait()
        return sorted(f"{lock.who}: {lock.why}" for lock in self._locks)
