"""A reconciler that also wakes when the kernel's network configuration changes."""

from typing import ClassVar

import trio

from talos.resource.controller import ControllerRuntime, Reconciler
from talos.system.links import Links, Topic


class KernelReconciler(Reconciler):
    """Reconciles at the start, on changes of the inputs and on changes in the kernel."""

    topics: ClassVar[Topic]

    def __init__(self, links: Links) -> None:
        self.links = links

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile until cancelled."""
        async with self.links.watch(self.topics) as changes, trio.open_nursery() as nursery:

            async def listen() -> None:
                async for _ in changes:
                    runtime.queue_reconcile()

            nursery.start_soon(listen)
            async for _ in runtime.events():
                await self.reconcile(runtime)
                runtime.reset_backoff()
