"""An event loop on which waiting takes no time: its clock jumps when nothing else is to be done."""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, override


class _Selector(selectors.SelectSelector):
    """A clock whose waits pass at once. It stands still while one of ``threads`` is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if self.threads and (timeout is None or timeout > 0):
            return super().select(None)  # until a thread hands something to the loop
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every task waits, and nothing will wake one"
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """For tests that wait for nothing outside but own threads; ``asyncio.run`` takes it as ``loop_factory``.

    What a thread waits for must not be a time of this loop, which stands still meanwhile.
    """

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds that were waited."""
        return self._clock.now

    @override
    def run_in_executor[*Ts, T](
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads += 1
        future.add_done_callback(self._end_thread)
        return future

    @override
    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        self._clock.threads += 1
        try:
            await super().shutdown_default_executor(timeout)
        finally:
            self._clock.threads -= 1

    def _end_thread(self, _: asyncio.Future[Any]) -> None:
        self._clock.threads -= 1
