"""A child process of PID 1, as the code sees it that started it."""

import os
import signal
from contextlib import suppress

import trio


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
