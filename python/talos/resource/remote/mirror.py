"""A State of another process with copies of what is read at hand.

Controllers read much more than they write: they read all of their inputs whenever one has
happened. Over a socket each read costs a call, and most writes change nothing. Here every
kind that is read is watched once; reads, and writes that would change nothing, take no call.

A reader never sees less than what woke it: events reach the copy before those who wait for
them. What is written through the mirror is seen at once, what others wrote a moment later,
so a write may be refused as one that lost a race; the copy is then renewed and
the usual second try succeeds.
"""

import builtins
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, cast, override

import trio
from google.protobuf.message import Message

from talos.resource.controller.access import Input
from talos.resource.controller.controller import Controller
from talos.resource.kind import Kind
from talos.resource.kinds import REGISTRY
from talos.resource.query import ALL, Query
from talos.resource.resource import Phase, Resource
from talos.resource.state import (
    FROM_NOW,
    Event,
    EventStream,
    EventType,
    NotFoundError,
    State,
    StateError,
    WatchOptions,
)
from talos.system.wakeup import Wakeup

log = logging.getLogger(__name__)

RETRY_DELAY = 0.5
"""Seconds before a watch that ended is started again."""

type Batch = Sequence[Event[Any]]
type Key = tuple[str, str]


class MirroredState(State):
    """Implements :class:`talos.resource.state.State`; made by :func:`mirror`."""

    def __init__(self, state: State, nursery: trio.Nursery, ids: Mapping[Key, frozenset[str]]) -> None:
        self._state = state
        self._nursery = nursery
        self._ids = ids
        self._copies: dict[Key, _Copy] = {}

    @override
    async def get[S: Message](self, kind: Kind[S], id: str, *, namespace: str | None = None) -> Resource[S]:
        key = kind.type, kind.choose_namespace(namespace)
        if id not in self._ids.get(key, (id,)):
            return await self._state.get(kind, id, namespace=namespace)
        copy = await self._copy(kind, namespace)
        try:
            return cast("Resource[S]", copy.resources[id])
        except KeyError:
            raise NotFoundError(f"resource {kind.type}({copy.namespace}/{id}) doesn't exist") from None

    @override
    async def list[S: Message](
        self, kind: Kind[S], *, namespace: str | None = None, query: Query = ALL
    ) -> list[Resource[S]]:
        copy = await self._copy(kind, namespace)
        found = sorted(copy.resources.items())
        return [
            cast("Resource[S]", resource)
            for name, resource in found
            if query.matches(name, resource.metadata.labels)
        ]

    @override
    async def create[S: Message](self, resource: Resource[S], *, owner: str = "") -> Resource[S]:
        try:
            stored = await self._state.create(resource, owner=owner)
        except StateError:
            await self._renew(resource)
            raise
        self._note(stored)
        return stored

    @override
    async def update[S: Message](
        self, resource: Resource[S], *, owner: str = "", expected_phase: Phase | None = Phase.RUNNING
    ) -> Resource[S]:
        """Replace a resource whose stored version is the given one's; no call when nothing changes."""
        metadata = resource.metadata
        copy = self._copies.get((metadata.type, metadata.namespace))
        if (
            copy is not None
            and copy.resources.get(resource.id) == resource
            and metadata.owner == owner
            and expected_phase in (None, metadata.phase)
        ):
            return resource
        try:
            stored = await self._state.update(resource, owner=owner, expected_phase=expected_phase)
        except StateError:
            await self._renew(resource)
            raise
        self._note(stored)
        return stored

    @override
    async def teardown(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> bool:
        return await self._state.teardown(kind, id, namespace=namespace, owner=owner)

    @override
    async def destroy(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> None:
        await self._state.destroy(kind, id, namespace=namespace, owner=owner)
        copy = self._copies.get((kind.type, kind.choose_namespace(namespace)))
        if copy is not None:
            copy.resources.pop(id, None)

    @override
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
        """Events; those of a whole kind from now on come from the copy's own watch."""
        if id is None and query == ALL and options in (FROM_NOW, WatchOptions(aggregated=True)):
            copy = await self._copy(kind, namespace)
            reader = _Reader()
            copy.readers.append(reader)
            try:
                yield reader
            finally:
                copy.readers.remove(reader)
            return
        async with self._state.watch(kind, id, namespace=namespace, query=query, options=options) as events:
            yield events

    async def _copy(self, kind: Kind[Message], namespace: str | None) -> "_Copy":
        key = kind.type, kind.choose_namespace(namespace)
        copy = self._copies.get(key)
        if copy is None:
            ids = self._ids.get(key)
            copy = self._copies[key] = _Copy(kind, key[1], None if ids is None else len(ids))
            for one in (None,) if ids is None else sorted(ids):
                self._nursery.start_soon(copy.follow, self._state, one)
        await copy.is_complete.wait()
        return copy

    def _note(self, stored: Resource[Any]) -> None:
        copy = self._copies.get((stored.metadata.type, stored.metadata.namespace))
        if copy is not None:
            copy.put(stored)

    async def _renew(self, resource: Resource[Any]) -> None:
        """Request a resource whose copy may be outdated."""
        metadata = resource.metadata
        copy = self._copies.get((metadata.type, metadata.namespace))
        if copy is None:
            return
        kind: Kind[Message] = REGISTRY[metadata.type]
        try:
            copy.put(await self._state.get(kind, metadata.id, namespace=metadata.namespace))
        except NotFoundError:
            copy.resources.pop(metadata.id, None)


class _Copy:
    """Resources of a kind in a namespace, all of them or ``count``, and the readers of changes.

    It is complete when each of its watches has delivered what was there when it began.
    """

    def __init__(self, kind: Kind[Message], namespace: str, count: int | None) -> None:
        self.namespace = namespace
        self.resources: builtins.dict[str, Resource[Any]] = {}
        self.readers: builtins.list[_Reader] = []
        self.is_complete = trio.Event()
        self._kind = kind
        self._expected = 1 if count is None else count
        self._delivered: builtins.set[str | None] = builtins.set()

    async def follow(self, state: State, id: str | None) -> None:
        """Keep the copy of all resources, or of one, as the State is, until cancelled."""
        options = WatchOptions(bootstrap=id is None, aggregated=True)
        while True:
            try:
                async with state.watch(self._kind, id, namespace=self.namespace, options=options) as events:
                    async for batch in events:
                        self._take(batch, id)
            except StateError as error:
                log.warning("watch of %s(%s/%s) broke: %s", self._kind.type, self.namespace, id or "*", error)
            # The next watch delivers everything again; the copy may be outdated until then.
            self._delivered.discard(id)
            self.is_complete = trio.Event()
            if id is None:
                self.resources = {}
            else:
                self.resources.pop(id, None)
            await trio.sleep(RETRY_DELAY)

    def _take(self, batch: Batch, id: str | None) -> None:
        # The first event of one resource's watch is how it is now.
        if id is not None or any(event.type is EventType.BOOTSTRAPPED for event in batch):
            self._delivered.add(id)
        for event in batch:
            resource = event.resource
            if event.type is EventType.BOOTSTRAPPED:
                continue
            if event.type is EventType.DESTROYED and resource is not None:
                held = self.resources.get(resource.id)
                # This process may have created it anew since.
                if held is not None and held.metadata.created <= resource.metadata.created:
                    del self.resources[resource.id]
            elif resource is not None:
                self.put(resource)
        if len(self._delivered) < self._expected:
            return
        self.is_complete.set()
        for reader in self.readers:
            reader.put(batch)

    def put(self, resource: Resource[Any]) -> None:
        """Take a resource unless a newer one is held."""
        held = self.resources.get(resource.id)
        if held is None or _age(held) < _age(resource):
            self.resources[resource.id] = resource


def _age(resource: Resource[Any]) -> tuple[int, int]:
    return resource.metadata.created, resource.metadata.version


class _Reader:
    """The batches that one watch has not delivered yet."""

    def __init__(self) -> None:
        self._batches: builtins.list[Batch] = []
        self._filled = Wakeup()

    def put(self, batch: Batch) -> None:
        """Add a batch."""
        self._batches.append(batch)
        self._filled.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        await self._filled.wait()
        batch = [event for batch in self._batches for event in batch]
        self._batches.clear()
        return batch


def find_ids(controllers: Iterable[Controller], reads: Iterable[Input] = ()) -> Mapping[Key, frozenset[str]]:
    """The kinds of which only some resources are declared to be read, with the ids of these."""
    found: dict[Key, set[str | None]] = {}
    for item in (*reads, *(item for controller in controllers for item in controller.inputs)):
        found.setdefault((item.kind.type, item.effective_namespace), set()).add(item.id)
    written = {output.kind.type for controller in controllers for output in controller.outputs}
    return {
        key: frozenset(one for one in ids if one is not None)
        for key, ids in found.items()
        if None not in ids and key[0] not in written
    }


@asynccontextmanager
async def mirror(
    state: State, controllers: Sequence[Controller] = (), reads: Sequence[Input] = ()
) -> AsyncGenerator[State]:
    """The State with copies of what is read, for as long as the context is open.

    Of what ``controllers`` and ``reads`` declare by id only these resources are watched: a State
    that guards its resources refuses the rest of the kind.
    """
    async with trio.open_nursery() as nursery:
        yield MirroredState(state, nursery, find_ids(controllers, reads))
        nursery.cancel_scope.cancel()
