"""The one place where PID 1 reaps processes."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress

import trio

from talos.system.reaping import reap


class Reaper:
    """Reaps every child; the exit code of a registered one is passed to its waiters.

    Nothing else in the process may wait for children.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Child] = {}
        self._expecting = 0
        self._early: dict[int, int] = {}
        self.orphans = 0

    def drain(self) -> None:
        """Reap all children that have ended; called on SIGCHLD."""
        for pid, code in reap():
            child = self._waiting.pop(pid, None)
            if child is not None:
                child.finish(code)
            elif self._expecting:
                self._early[pid] = code
            else:
                self.orphans += 1

    @contextmanager
    def expecting(self) -> Generator[None]:
        """While another process starts a child of PID 1, whose pid is not known yet."""
        self._expecting += 1
        try:
            yield
        finally:
            self._expecting -= 1
            if not self._expecting:
                self.orphans += len(self._early)
                self._early.clear()

    def register(self, pid: int) -> "Child":
        """A child to wait for; at once after its start, or within ``expecting``."""
        child = Child(pid)
        code = self._early.pop(pid, None)
        if code is None:
            self._waiting[pid] = child
        else:
            child.finish(code)
        return child


class Child:
    """A child process of PID 1."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ended = trio.Event()
        self._code = 0

    def finish(self, code: int) -> None:
        """It has ended; called by the reaper."""
        self._code = code
        self._ended.set()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended. While it hasn't, its pid is its own and may be signalled."""
        return self._ended.is_set()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait for its end: its exit code, negative for a signal."""
        await self._ended.wait()
        return self._code
