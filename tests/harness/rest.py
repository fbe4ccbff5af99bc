"""Controllers at rest: what looks again and finds nothing changed writes nothing.

A controller that writes in every round wakes those that read what it writes, and in the end
itself: the daemon never rests.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing
from google.protobuf.message import Message

from talos.resource.controller.controller import Controller
from talos.resource.controller.runtime import LOGGER, run_controllers
from talos.resource.kind import Kind
from talos.resource.memory.state import MemoryState
from talos.resource.query import ALL, Query
from talos.resource.resource import Phase, Resource
from talos.resource.state import FROM_NOW, Event, EventStream, StateError, WatchOptions
from talos.system.wakeup import Signal

REST_TIMEOUT = 20.0
"""Seconds in which controllers have to come to rest."""
QUIET_DELAY = 0.1
"""Seconds for which nothing may be runnable: threads may be at work."""


@dataclass
class CountingState:
    """A State in memory that records what changes in it, and whose watches can be broken."""

    memory: MemoryState = field(default_factory=MemoryState)
    writes: list[str] = field(default_factory=list[str])
    watches: int = 0
    """Watches of whole kinds that are in place."""
    _watched: Signal = field(default_factory=Signal)
    _scopes: set[trio.CancelScope] = field(default_factory=set[trio.CancelScope])

    def break_watches(self) -> None:
        """End the watches of whole kinds: every controller with such an input looks again."""
        for scope in tuple(self._scopes):
            scope.cancel()

    async def get[S: Message](self, kind: Kind[S], id: str, *, namespace: str | None = None) -> Resource[S]:
        return await self.memory.get(kind, id, namespace=namespace)

    async def list[S: Message](
        self, kind: Kind[S], *, namespace: str | None = None, query: Query = ALL
    ) -> list[Resource[S]]:
        return await self.memory.list(kind, namespace=namespace, query=query)

    async def create[S: Message](self, resource: Resource[S], *, owner: str = "") -> Resource[S]:
        stored = await self.memory.create(resource, owner=owner)
        self._record("created", stored)
        return stored

    async def update[S: Message](
        self, resource: Resource[S], *, owner: str = "", expected_phase: Phase | None = Phase.RUNNING
    ) -> Resource[S]:
        stored = await self.memory.update(resource, owner=owner, expected_phase=expected_phase)
        if stored.metadata.version != resource.metadata.version:
            self._record("updated", stored)
        return stored

    async def teardown(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> bool:
        before = await self.memory.get(kind, id, namespace=namespace)
        if before.metadata.phase is Phase.RUNNING:
            self._record("torn down", before)
        return await self.memory.teardown(kind, id, namespace=namespace, owner=owner)

    async def destroy(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> None:
        await self.memory.destroy(kind, id, namespace=namespace, owner=owner)
        self.writes.append(f"destroyed {kind.type} {id} of {owner}")

    @asynccontextmanager
    async def watch[S: Message](
        self,
        kind: Kind[S],
        id: str | None = None,
        *,
        namespace: str | None = None,
        query: Query = ALL,
        options: WatchOptions = FROM_NOW,
    ) -> AsyncGenerator[EventStream[S]]:
        async with self.memory.watch(kind, id, namespace=namespace, query=query, options=options) as events:
            if id is not None:
                yield events
                return
            self.watches += 1
            self._watched.notify()
            try:
                yield _Breakable(events, self._scopes)
            finally:
                self.watches -= 1

    async def wait_for_watches(self, count: int) -> None:
        """Wait until so many watches of whole kinds are in place."""
        while self.watches < count:
            await self._watched.wait()

    def _record(self, verb: str, resource: Resource[Any]) -> None:
        metadata = resource.metadata
        self.writes.append(f"{verb} {metadata.type} {metadata.id} of {metadata.owner}: {resource.spec}")


class _Failures(logging.Handler):
    """Keeps what controllers failed with: one that fails writes nothing, too."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class _Breakable[S: Message]:
    def __init__(self, events: EventStream[S], scopes: set[trio.CancelScope]) -> None:
        self._events = events
        self._scopes = scopes

    def __aiter__(self) -> "_Breakable[S]":
        return self

    async def __anext__(self) -> Sequence[Event[S]]:
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await anext(self._events)
            finally:
                self._scopes.discard(scope)
        raise StateError("broken by the test")


async def _wait_until_quiet() -> None:
    """Wait until no task has run for a while, and no thread works for one, which may take longer."""
    threads = trio.to_thread.current_default_thread_limiter()
    await trio.testing.wait_all_tasks_blocked(QUIET_DELAY)
    while threads.borrowed_tokens:
        await trio.testing.wait_all_tasks_blocked(QUIET_DELAY)


async def check_rest(
    state: CountingState,
    controllers: Sequence[Controller],
    *,
    beside: Sequence[Callable[[], Awaitable[object]]] = (),
    disturb: Callable[[], None] = lambda: None,
) -> None:
    """Run controllers until they rest, have all of them look again, and assert that nothing is written.

    ``beside`` runs beside them. ``disturb`` wakes those that follow something else than the State.
    """
    failures = _Failures()
    logging.getLogger(LOGGER).addHandler(failures)
    with trio.fail_after(REST_TIMEOUT):
        async with trio.open_nursery() as nursery:
            for task in beside:
                nursery.start_soon(task)
            await nursery.start(run_controllers, state, controllers)
            await _wait_until_quiet()
            assert state.writes, "the controllers have written nothing at all"
            count = state.watches
            for _ in range(2):
                state.writes.clear()
                state.break_watches()
                disturb()
                await trio.testing.wait_all_tasks_blocked()
                await state.wait_for_watches(count)
                await _wait_until_quiet()
                assert not state.writes, "written though nothing has changed:\n" + "\n".join(state.writes)
            nursery.cancel_scope.cancel()
    logging.getLogger(LOGGER).removeHandler(failures)
    assert not failures.texts, "\n".join(failures.texts)
