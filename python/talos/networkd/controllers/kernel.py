"""A reconciler that also wakes when the kernel's network configuration changes."""

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import ClassVar

import trio

from talos.resource.controller.controller import ControllerRuntime, Reconciler
from talos.system.net.links import LinkError, Links, Topic

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
"""Before a change that the kernel refused is tried again."""


@dataclass(slots=True)
class _Refusal:
    since: float
    told: str = ""


class KernelReconciler(Reconciler):
    """Reconciles at the start, on changes of the inputs and on changes in the kernel."""

    topics: ClassVar[Topic]

    def __init__(self, links: Links) -> None:
        self.links = links
        self._refused: dict[str, _Refusal] = {}
        self._is_refused = False

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile until cancelled."""
        async with self.links.watch(self.topics) as changes, trio.open_nursery() as nursery:

            async def listen() -> None:
                async for _ in changes:
                    runtime.queue_reconcile()

            async def retry() -> None:
                await trio.sleep(RETRY_SECONDS)
                runtime.queue_reconcile()

            nursery.start_soon(listen)
            async for _ in runtime.events():
                self._is_refused = False
                await self.reconcile(runtime)
                if self._is_refused:
                    nursery.start_soon(retry)
                runtime.reset_backoff()

    async def attempt(self, what: str, change: Awaitable[None]) -> bool:
        """Make a change. What the kernel refuses keeps nothing else back and is tried again.

        It is told once, and only when it lasts: a route whose address comes a moment later
        is no news.
        """
        try:
            await change
        except LinkError as error:
            self._is_refused = True
            refusal = self._refused.setdefault(what, _Refusal(trio.current_time()))
            if refusal.told != str(error) and trio.current_time() - refusal.since >= RETRY_SECONDS / 2:
                refusal.told = str(error)
                log.warning("%s: the kernel refuses: %s", what, error.strerror)
            return False
        self._refused.pop(what, None)
        return True
