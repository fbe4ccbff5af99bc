"""An event loop on which waiting takes no time: its clock jumps when nothing else is to be done."""

import asyncio
import selectors
from typing import Any


class _Selector(selectors.SelectSelector):
    """A clock whose waits pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every task waits, and nothing will wake one"
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """For tests in one thread that wait for nothing outside; ``asyncio.run`` takes it as ``loop_factory``."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds that were waited."""
        return self._clock.now
