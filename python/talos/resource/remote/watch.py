"""A watch of another process's State that survives broken connections."""

import enum
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Self, cast

import trio
from google.protobuf.message import Message

from talos.api.cosi import resource_pb2, state_pb2
from talos.api.rpc import Code, RpcError, Transport
from talos.resource.kind import Kind
from talos.resource.query import Query
from talos.resource.resource import Resource
from talos.resource.state import (
    BookmarkError,
    Event,
    EventType,
    StateError,
    UnavailableError,
    WatchOptions,
)
from talos.resource.yaml.spec import PLAIN_SPECS, resource_from_proto
from talos.system.backoff import Backoff

SERVICE = "/cosi.resource.State/"
API_VERSION = 1
"""The version from which on a server sends BOOTSTRAPPED and ERRORED."""

RECONNECT_BACKOFF = Backoff(0.05, 2.0)
"""Seconds before each try to reconnect."""

_TRANSIENT = frozenset(
    {
        Code.UNAVAILABLE,
        Code.CANCELLED,
        Code.UNKNOWN,
        Code.INTERNAL,
        Code.ABORTED,
        Code.DEADLINE_EXCEEDED,
        Code.RESOURCE_EXHAUSTED,
    }
)


class RemoteWatch[S: Message]:
    """An iterator over batches of events, fed by a task that reconnects.

    After a break the watch of a kind goes on from the last bookmark, so that nothing is
    missed or repeated. When the server refuses the bookmark (it was restarted, or the
    break lasted longer than its history), the contents are read anew:

    - a watch with bootstrap delivers the difference to what it delivered before, as CREATED,
      UPDATED and DESTROYED events, so that its reader has the present contents;
    - any other watch delivers all that is there as CREATED and then BOOTSTRAPPED, which it
      never does otherwise: what was destroyed meanwhile is lost.

    The watch of one resource delivers its state again if it has changed.

    At most one batch waits for the reader; behind it the flow control of the connection
    makes the server wait, and a reader that is too slow gets ERRORED as with a local State.
    """

    def __init__(
        self,
        transport: Transport,
        kind: Kind[S],
        namespace: str,
        id: str | None,
        query: Query,
        options: WatchOptions,
    ) -> None:
        self._transport = transport
        self._kind = kind
        self._namespace = namespace
        self._id = id
        self._query = query
        self._options = options
        self._bookmark = options.bookmark or b""
        # What was delivered, where differences to it will have to be.
        self._known: dict[str, Resource[S]] = {}
        self._is_bootstrapped = not options.bootstrap or id is not None
        self._has_ended = False
        self._send, self._receive = trio.open_memory_channel[Sequence[Event[S]] | StateError](0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Event[S]]:
        try:
            batch = await self._receive.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        if isinstance(batch, StateError):
            raise batch
        return batch

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Feed the iterator until the watch ends; started when the watch is in place."""
        has_started = False
        start = _StreamStart.FIRST
        delays = iter(RECONNECT_BACKOFF)
        async with self._send:
            while True:
                is_in_place = False
                try:
                    async with self._transport.stream(
                        SERVICE + "Watch", self._request(start), state_pb2.WatchResponse, metadata=PLAIN_SPECS
                    ) as replies:
                        # The first reply is empty: the watch is in place.
                        await anext(replies, None)
                        is_in_place = True
                        delays = iter(RECONNECT_BACKOFF)
                        if not has_started:
                            has_started = True
                            task_status.started()
                        await self._follow(replies, start)
                except RpcError as error:
                    if not has_started:
                        raise _to_state_error(error) from error
                    if (
                        start is _StreamStart.BOOKMARK
                        and error.code is Code.FAILED_PRECONDITION
                        and not is_in_place
                    ):
                        self._bookmark = b""
                        delays = chain((0.0,), RECONNECT_BACKOFF)
                    elif error.code not in _TRANSIENT:
                        await self._send.send(_to_state_error(error))
                        return
                if self._has_ended:
                    return
                start = self._next_start()
                await trio.sleep(next(delays))

    def _next_start(self) -> "_StreamStart":
        if self._id is not None:
            return _StreamStart.RESYNC
        return _StreamStart.BOOKMARK if self._bookmark else _StreamStart.RESYNC

    def _request(self, start: "_StreamStart") -> state_pb2.WatchRequest:
        given = self._options
        request = state_pb2.WatchRequest(
            namespace=self._namespace, type=self._kind.type, id=self._id, api_version=API_VERSION
        )
        options = request.options
        options.aggregated = given.aggregated
        if start is _StreamStart.BOOKMARK or (start is _StreamStart.FIRST and given.bookmark is not None):
            options.start_from_bookmark = self._bookmark
        if start is _StreamStart.FIRST:
            options.tail_events = given.tail
        if self._id is not None:
            return request
        labels, ids = query_to_proto(self._query)
        options.label_query.extend(labels)
        options.id_query.CopyFrom(ids)
        if start is _StreamStart.RESYNC or (start is _StreamStart.FIRST and given.bootstrap):
            options.bootstrap_contents = True
        elif start is _StreamStart.FIRST and not given.tail and given.bookmark is None:
            # Set from the start, so that a break before the first event loses nothing.
            options.bootstrap_bookmark = True
        return request

    async def _follow(self, replies: AsyncIterator[state_pb2.WatchResponse], start: "_StreamStart") -> None:
        is_resync = start is _StreamStart.RESYNC
        fresh: dict[str, Resource[S]] | None = {} if is_resync and self._options.bootstrap else None
        async for reply in replies:
            batch = [event_from_proto(self._kind, event) for event in reply.event]
            if self._id is not None:
                if is_resync and batch:
                    batch[:1] = self._compare_one(batch[0])
                    is_resync = False
            elif fresh is not None:
                batch = self._compare_all(fresh, batch)
                if batch is None:
                    continue
                fresh = None
            batch = [event for event in batch if self._note(event)]
            if self._options.aggregated and batch:
                await self._send.send(batch)
            elif not self._options.aggregated:
                for event in batch:
                    await self._send.send((event,))

    def _note(self, event: Event[S]) -> bool:
        """Keep what a reconnection needs; false when the event is not delivered."""
        self._bookmark = event.bookmark or self._bookmark
        resource = event.resource
        match event.type:
            case EventType.NOOP:
                return self._options.bootstrap_bookmark
            case EventType.BOOTSTRAPPED:
                self._is_bootstrapped = True
            case EventType.ERRORED:
                self._has_ended = True
            case EventType.CREATED | EventType.UPDATED if resource is not None:
                if self._id is not None or self._options.bootstrap:
                    self._known[resource.id] = resource
            case _ if resource is not None:
                self._known.pop(resource.id, None)
            case _:
                pass
        return True

    def _compare_one(self, event: Event[S]) -> list[Event[S]]:
        """The state of the one resource, if it is not the one delivered last."""
        known = self._known.get(self._id or "")
        if event.type is EventType.DESTROYED:
            return [] if known is None else [replace(event, resource=known)]
        if known is None or event.type is not EventType.CREATED:
            return [event]
        return [] if event.resource == known else [replace(event, type=EventType.UPDATED, old=known)]

    def _compare_all(self, fresh: dict[str, Resource[S]], batch: list[Event[S]]) -> list[Event[S]] | None:
        """The difference to what was delivered, once ``fresh`` is complete."""
        for number, event in enumerate(batch):
            if event.type is EventType.BOOTSTRAPPED:
                changes = list(_differences(self._known, fresh))
                if not self._is_bootstrapped:
                    changes.append(event)
                self._bookmark = event.bookmark
                return changes + batch[number + 1 :]
            if event.resource is not None:
                fresh[event.resource.id] = event.resource
        return None


class _StreamStart(enum.Enum):
    """How a stream begins."""

    FIRST = "with the given options"
    BOOKMARK = "where the last one broke"
    RESYNC = "with the present contents"


def _differences[S: Message](
    known: Mapping[str, Resource[S]], fresh: Mapping[str, Resource[S]]
) -> Iterator[Event[S]]:
    for name, resource in known.items():
        if name not in fresh:
            yield Event(type=EventType.DESTROYED, resource=resource)
    for name, resource in fresh.items():
        old = known.get(name)
        if old is None:
            yield Event(type=EventType.CREATED, resource=resource)
        elif old != resource:
            yield Event(type=EventType.UPDATED, resource=resource, old=old)


def _to_state_error(error: RpcError) -> StateError:
    match error.code:
        case Code.FAILED_PRECONDITION:
            return BookmarkError(error.reason)
        case Code.UNAVAILABLE:
            return UnavailableError(error.reason)
        case _:
            return StateError(str(error))


def event_from_proto[S: Message](kind: Kind[S], message: state_pb2.Event) -> Event[S]:
    """An event from the wire."""
    return Event(
        type=EventType(message.event_type),
        resource=resource_from_proto(kind, message.resource) if message.HasField("resource") else None,
        old=resource_from_proto(kind, message.old) if message.HasField("old") else None,
        error=message.error,
        bookmark=message.bookmark,
    )


def query_to_proto(query: Query) -> tuple[list[resource_pb2.LabelQuery], resource_pb2.IDQuery]:
    """A query for the wire."""
    labels = [
        resource_pb2.LabelQuery(
            terms=[
                resource_pb2.LabelTerm(
                    key=term.key,
                    op=cast("resource_pb2.LabelTerm.Operation", int(term.operator)),
                    value=term.values,
                    invert=term.invert,
                )
                for term in terms
            ]
        )
        for terms in query.labels
    ]
    pattern = query.id_pattern.pattern if query.id_pattern else ""
    return labels, resource_pb2.IDQuery(regexp=pattern)
