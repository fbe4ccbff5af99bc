"""A reconciler that also wakes when the kernel's network configuration changes."""

import errno
from collections import deque
from collections.abc import Coroutine
from typing import Any, ClassVar

import trio
from google.protobuf.message import Message

from talos.resource.controller.controller import ControllerRuntime, Reconciler
from talos.resource.kind import Kind
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, PhaseConflictError
from talos.system.logging import Log
from talos.system.net.links import LinkError, Links, Topic

RETRY_INTERVAL = 10.0
"""Seconds before a change that the kernel refused is retried."""
REST_FACTOR = 1.0
"""Times the duration of a long round: as long it rests before the next one. While many things change, rounds
become fewer instead of each being longer than the one before."""
LONG_ROUND, MAX_REST = 0.01, 0.25
"""Seconds: a shorter round is followed by the next one at once; and what another program undoes is repaired
within a second in any case."""
MAX_CHANGES = 5
"""Changes of one object within ``RETRY_INTERVAL``."""


class KernelReconciler(Reconciler):
    """Reconciles at the start, on changes of the inputs and on changes in the kernel."""

    topics: ClassVar[Topic]

    def __init__(self, links: Links, log: Log) -> None:
        self.links = links
        self.log = log
        self._refused: dict[str, float] = {}
        """When each change was refused first."""
        self._times: dict[str, deque[float]] = {}
        """When each change was made last."""
        self._is_refused = False
        self._is_retry_due = False

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile until cancelled."""
        self._is_retry_due = False
        async with self.links.watch(self.topics) as changes, trio.open_nursery() as nursery:

            async def listen() -> None:
                async for _ in changes:
                    runtime.queue_reconcile()

            async def retry() -> None:
                await trio.sleep(RETRY_INTERVAL)
                self._is_retry_due = False
                runtime.queue_reconcile()

            nursery.start_soon(listen)
            async for _ in runtime.events():
                self._is_refused = False
                began = trio.current_time()
                await self.reconcile(runtime)
                duration = trio.current_time() - began
                # One retry at a time: each round that fails would otherwise add one that comes
                # again every time, and a node that has seen many changes would do nothing else.
                if self._is_refused and not self._is_retry_due:
                    self._is_retry_due = True
                    nursery.start_soon(retry)
                runtime.reset_backoff()
                if duration > LONG_ROUND:
                    await trio.sleep(min(REST_FACTOR * duration, MAX_REST))

    async def hold(
        self, runtime: ControllerRuntime, kind: Kind[Message], resource: Resource[Message]
    ) -> bool:
        """Hold a spec with a finalizer, so that it ends only after what is made from it.

        False when it is gone, or ends: it is in the list that was read a moment ago only, and nothing may
        be made from it.
        """
        if self.name in resource.metadata.finalizers:
            return True
        try:
            await runtime.add_finalizer(kind, resource.id)
        except (NotFoundError, PhaseConflictError):
            return False
        return True

    async def attempt(self, what: str, change: Coroutine[Any, Any, None]) -> bool:
        """Make a change. One that the kernel refuses does not block others and is retried.

        It is logged once, and only when it lasts: a route is refused until its address is there, a
        moment later; what the kernel lacks is an error at once. A change that has to be made again and
        again, since another program or the kernel undoes it, is put off: the event of each undoing would
        otherwise lead to the next round at once.
        """
        if self._is_undone(what):
            change.close()
            self._is_refused = True
            self.log.once(f"{what}: what is set is changed by something else; it is set again and again")
            return False
        try:
            await change
        except LinkError as error:
            self._is_refused = True
            since = self._refused.setdefault(what, trio.current_time())
            text = f"{what}: the kernel refuses: {error.strerror}"
            if error.errno == errno.EOPNOTSUPP:  # waiting changes nothing
                self.log.once(text, key=what, level="error")
            elif trio.current_time() - since >= RETRY_INTERVAL / 2:
                self.log.once(text, key=what)
            return False
        if self._refused.pop(what, None) is not None:
            self.log.forget(what)
        self._times.setdefault(what, deque(maxlen=MAX_CHANGES)).append(trio.current_time())
        return True

    def _is_undone(self, what: str) -> bool:
        now = trio.current_time()
        for other in [other for other, times in self._times.items() if times[-1] < now - RETRY_INTERVAL]:
            del self._times[other]
        times = self._times.get(what, ())
        return len(times) == MAX_CHANGES and times[0] > now - RETRY_INTERVAL
