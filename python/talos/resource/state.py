"""The State: every resource of the node, behind one interface, local or over gRPC."""

import enum
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, Protocol

from google.protobuf.message import Message

from talos.resource.kind import Kind, S_co
from talos.resource.query import ALL, Query
from talos.resource.resource import Phase, Resource


class StateError(Exception):
    """A request that the State refused."""


class NotFoundError(StateError):
    """No such resource."""


class AlreadyExistsError(StateError):
    """A resource with this namespace, type and id exists."""


class OwnerConflictError(StateError):
    """The resource belongs to another controller."""


class PhaseConflictError(StateError):
    """The resource is in another phase than the caller expects."""


class ConflictError(StateError):
    """The resource has another version than the caller's, or finalizers are pending."""


class BookmarkError(StateError):
    """The bookmark is malformed or older than the history kept."""


class UnavailableError(StateError):
    """The State can't be reached now; the same call may succeed later."""


class EventType(enum.IntEnum):
    """What happened to a resource; the numbers are those on the wire."""

    CREATED = 0
    UPDATED = 1
    DESTROYED = 2
    BOOTSTRAPPED = 3
    ERRORED = 4
    NOOP = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Generic[S_co]):  # noqa: UP046 - see S_co
    """One change. ``resource`` is absent from BOOTSTRAPPED, NOOP and ERRORED events."""

    type: EventType
    resource: Resource[S_co] | None = None
    old: Resource[S_co] | None = None
    error: str = ""
    bookmark: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How a watch begins. Without any option it delivers only later changes.

    At most one of ``bootstrap`` (all resources as CREATED, then BOOTSTRAPPED),
    ``bootstrap_bookmark`` (a NOOP that has a bookmark), ``tail`` (so many of the last
    events) and ``bookmark`` (the events after it). The watch of one resource supports only
    the last two. ``aggregated`` lets a batch hold several events, otherwise it holds one.
    """

    bootstrap: bool = False
    bootstrap_bookmark: bool = False
    tail: int = 0
    bookmark: bytes | None = None
    aggregated: bool = False

    def check(self) -> None:
        """ValueError when the watch would have to begin in two ways."""
        ways = (self.bootstrap, self.bootstrap_bookmark, self.tail > 0, self.bookmark is not None)
        if sum(ways) > 1:
            raise ValueError("a watch begins in one way: bootstrap, bootstrap bookmark, tail or bookmark")


FROM_NOW = WatchOptions()

type EventStream[S: Message] = AsyncIterator[Sequence[Event[S]]]


class State(Protocol):
    """Create, read, change and watch resources.

    ``namespace`` is the kind's default one unless given. ``owner`` is the name of the
    controller that acts; only the owner of a resource may change or destroy it.
    """

    async def get[S: Message](self, kind: Kind[S], id: str, *, namespace: str | None = None) -> Resource[S]:
        """One resource; NotFoundError when there is none."""
        ...

    async def list[S: Message](
        self, kind: Kind[S], *, namespace: str | None = None, query: Query = ALL
    ) -> list[Resource[S]]:
        """All resources of a kind that match the query, ordered by id."""
        ...

    async def create[S: Message](self, resource: Resource[S], *, owner: str = "") -> Resource[S]:
        """Store a new resource; returns it as stored. AlreadyExistsError."""
        ...

    async def update[S: Message](
        self, resource: Resource[S], *, owner: str = "", expected_phase: Phase | None = Phase.RUNNING
    ) -> Resource[S]:
        """Replace a resource whose stored version is the given one's.

        NotFoundError, ConflictError, OwnerConflictError, PhaseConflictError. An update
        that changes nothing is no new version.
        """
        ...

    async def teardown(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> bool:
        """Start the teardown of a resource; true when it has no finalizers."""
        ...

    async def destroy(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> None:
        """Remove a resource; ConflictError while it has finalizers."""
        ...

    def watch[S: Message](
        self,
        kind: Kind[S],
        id: str | None = None,
        *,
        namespace: str | None = None,
        query: Query = ALL,
        options: WatchOptions = FROM_NOW,
    ) -> AbstractAsyncContextManager[EventStream[S]]:
        """Events of one resource or of a whole kind.

        The watch is in place when the context is entered: no later event is missed. The
        watch of one id begins with its present state, CREATED or DESTROYED.
        """
        ...
