"""The State in this process's memory."""

import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import cast, override

import trio
from google.protobuf.message import Message

from talos.resource.kind import Kind
from talos.resource.memory.collection import Collection, MemoryWatch
from talos.resource.memory.usage import Usage
from talos.resource.query import ALL, Query
from talos.resource.resource import EMPTY, Metadata, Phase, Resource
from talos.resource.state import (
    FROM_NOW,
    AlreadyExistsError,
    ConflictError,
    EventStream,
    NotFoundError,
    OwnerConflictError,
    PhaseConflictError,
    State,
    WatchOptions,
)

_CALLS_PER_CHECKPOINT = 64
"""Every so many calls one lets other tasks run; the others only notice a cancellation.

A pass of trio's scheduler in guest mode costs more than a call.
"""


class MemoryState(State):
    """Every resource of the node; implements :class:`talos.resource.state.State`.

    For the tasks of one trio thread. A call takes effect at once and as a whole. ``clock``
    gives nanoseconds since the epoch.
    """

    def __init__(self, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self.usage = Usage()
        self.open_watches: Counter[str] = Counter()
        """Open watches by type."""
        self._collections: defaultdict[tuple[str, str], Collection] = defaultdict(
            lambda: Collection(self.usage)
        )
        self._calls = 0

    @override
    async def get[S: Message](self, kind: Kind[S], id: str, *, namespace: str | None = None) -> Resource[S]:
        await self._checkpoint()
        return cast("Resource[S]", self._stored(kind, id, namespace))

    @override
    async def list[S: Message](
        self, kind: Kind[S], *, namespace: str | None = None, query: Query = ALL
    ) -> list[Resource[S]]:
        await self._checkpoint()
        collection = self._collections.get((kind.choose_namespace(namespace), kind.type))
        return cast("list[Resource[S]]", collection.matching(query)) if collection else []

    @override
    async def create[S: Message](self, resource: Resource[S], *, owner: str = "") -> Resource[S]:
        await self._checkpoint()
        given = resource.metadata
        collection = self._collections[given.namespace, given.type]
        if given.id in collection.resources:
            raise AlreadyExistsError(f"resource {_place(given)} already exists")
        now = self._clock()
        stored = Resource(
            metadata=replace(
                _sealed(given), version=1, owner=owner, phase=Phase.RUNNING, created=now, updated=now
            ),
            spec=_copied(resource.spec),
        )
        collection.put(stored)
        return stored

    @override
    async def update[S: Message](
        self, resource: Resource[S], *, owner: str = "", expected_phase: Phase | None = Phase.RUNNING
    ) -> Resource[S]:
        await self._checkpoint()
        given = resource.metadata
        collection = self._collections.get((given.namespace, given.type))
        current = collection.resources.get(given.id) if collection else None
        if collection is None or current is None:
            raise NotFoundError(f"resource {_place(given)} doesn't exist")
        if current.metadata.version != given.version:
            raise ConflictError(
                f"resource {_place(given)} is at version {current.metadata.version}, not {given.version}"
            )
        _check_owner(current.metadata, owner)
        if expected_phase is not None and current.metadata.phase is not expected_phase:
            raise PhaseConflictError(f"resource {_place(given)} is in phase {current.metadata.phase.value}")
        if _is_same(given, current.metadata) and resource.spec == current.spec:
            return cast("Resource[S]", current)
        metadata = replace(
            _sealed(given),
            version=current.metadata.version + 1,
            owner=current.metadata.owner,
            created=current.metadata.created,
            updated=self._clock(),
        )
        stored = Resource(metadata=metadata, spec=_copied(resource.spec))
        collection.put(stored)
        return stored

    @override
    async def teardown(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> bool:
        await self._checkpoint()
        current = self._stored(kind, id, namespace)
        metadata = current.metadata
        _check_owner(metadata, owner)
        if metadata.phase is not Phase.TEARING_DOWN:
            ended = replace(
                metadata, phase=Phase.TEARING_DOWN, version=metadata.version + 1, updated=self._clock()
            )
            self._collections[metadata.namespace, metadata.type].put(current.with_metadata(ended))
        return not metadata.finalizers

    @override
    async def destroy(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> None:
        await self._checkpoint()
        metadata = self._stored(kind, id, namespace).metadata
        _check_owner(metadata, owner)
        if metadata.finalizers:
            raise ConflictError(
                f"resource {_place(metadata)} has pending finalizers: {', '.join(metadata.finalizers)}"
            )
        self._collections[metadata.namespace, metadata.type].remove(id)

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
        """Events of one resource or of a whole kind.

        A watcher that is further behind than the history reaches gets an ERRORED event,
        the last one.
        """
        await self._checkpoint()
        namespace = kind.choose_namespace(namespace)
        collection = self._collections[namespace, kind.type]
        if id is None:
            watch = MemoryWatch.of_kind(collection, query, options)
        else:
            watch = MemoryWatch.of_id(collection, make_tombstone(kind, namespace, id), options)
        self.open_watches[kind.type] += 1
        try:
            yield cast("EventStream[S]", watch)
        finally:
            self.open_watches[kind.type] -= 1

    def _stored(self, kind: Kind[Message], id: str, namespace: str | None) -> Resource[Message]:
        namespace = kind.choose_namespace(namespace)
        collection = self._collections.get((namespace, kind.type))
        resource = collection.resources.get(id) if collection else None
        if resource is None:
            raise NotFoundError(f"resource {kind.type}({namespace}/{id}) doesn't exist")
        return resource

    async def _checkpoint(self) -> None:
        self._calls += 1
        if self._calls % _CALLS_PER_CHECKPOINT:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()


def make_tombstone[S: Message](kind: Kind[S], namespace: str, id: str) -> Resource[S]:
    """A tombstone, for a resource that does not exist: version 0 and an empty spec."""
    return Resource(metadata=Metadata(namespace=namespace, type=kind.type, id=id), spec=kind.spec())


def _place(metadata: Metadata) -> str:
    return f"{metadata.type}({metadata.namespace}/{metadata.id})"


def _check_owner(metadata: Metadata, owner: str) -> None:
    if metadata.owner != owner:
        raise OwnerConflictError(f"resource {_place(metadata)} is owned by {metadata.owner!r}, not {owner!r}")


def _is_same(given: Metadata, current: Metadata) -> bool:
    return (
        given.phase is current.phase
        and given.finalizers == current.finalizers
        and given.labels == current.labels
        and given.annotations == current.annotations
    )


def _sealed(metadata: Metadata) -> Metadata:
    return replace(
        metadata, labels=_sealed_map(metadata.labels), annotations=_sealed_map(metadata.annotations)
    )


def _sealed_map(given: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(given)) if given else EMPTY


def _copied[S: Message](spec: S) -> S:
    copy = type(spec)()
    copy.CopyFrom(spec)
    return copy
