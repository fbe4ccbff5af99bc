"""Checks of mounted filesystems, which stop when one is to be unmounted."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from talos.system.block.scrub import Findings

type Scrub = Callable[[str, Callable[[], None]], Findings]
"""Checks what is mounted at a place; calls its second argument now and then, which raises to end it."""


@dataclass(slots=True)
class _Run:
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)


class Scrubber:
    """Runs checks in a thread. One of a mount that is held ends at once, and none begins."""

    def __init__(self, scrub: Scrub) -> None:
        self._scrub = scrub
        self._runs: dict[str, _Run] = {}
        self._held: set[str] = set()

    async def run(self, target: str) -> Findings | None:
        """What is damaged; None when it was stopped. OSError when it can't be checked."""
        if target in self._held:
            return None
        run = self._runs[target] = _Run()
        try:
            with run.scope:
                check_stopped = trio.from_thread.check_cancelled
                return await trio.to_thread.run_sync(self._scrub, target, check_stopped)
        finally:
            del self._runs[target]
            run.ended.set()
        return None

    @asynccontextmanager
    async def hold(self, target: str) -> AsyncGenerator[None]:
        """While a mount is undone: its filesystem must not be in use."""
        self._held.add(target)
        try:
            run = self._runs.get(target)
            if run is not None:
                run.scope.cancel()
                await run.ended.wait()
            yield
        finally:
            self._held.discard(target)
