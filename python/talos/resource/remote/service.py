"""``cosi.resource.State`` over a State."""

import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from google.protobuf.message import Message

from talos.api.cosi import state_pb2
from talos.api.rpc import Call, Code, RpcError, Send, Service
from talos.resource.changes import teardown_and_destroy
from talos.resource.kind import Kind
from talos.resource.kinds import REGISTRY
from talos.resource.remote.messages import EventMessages
from talos.resource.remote.requests import parse_query, parse_watch_options
from talos.resource.resource import Phase, Resource
from talos.resource.state import (
    AlreadyExistsError,
    BookmarkError,
    ConflictError,
    Event,
    EventType,
    NotFoundError,
    OwnerConflictError,
    PhaseConflictError,
    State,
    StateError,
)
from talos.resource.yaml.spec import PLAIN_SPECS, resource_from_proto, resource_to_proto

_CODES: Sequence[tuple[type[StateError], Code]] = (
    (NotFoundError, Code.NOT_FOUND),
    (AlreadyExistsError, Code.ALREADY_EXISTS),
    (OwnerConflictError, Code.PERMISSION_DENIED),
    (PhaseConflictError, Code.INVALID_ARGUMENT),
    (BookmarkError, Code.FAILED_PRECONDITION),
    (ConflictError, Code.FAILED_PRECONDITION),
    (StateError, Code.INTERNAL),
)


MAX_EVENTS = 4 << 20
"""Bytes of events in one message of an aggregated watch: clients take 32 MiB, and one event has 4 at most."""


_MESSAGES = EventMessages()
"""Of all services of the process: each daemon has one, and several follow the same kinds."""


class Verb(enum.Enum):
    """The verb of a call."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    TEARDOWN = "teardown"
    DESTROY = "destroy"

    @property
    def is_write(self) -> bool:
        """Whether it changes anything."""
        return self not in (Verb.GET, Verb.LIST, Verb.WATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAccess:
    """The target of a call: one resource, or with ``id`` None all of a type in a namespace.

    ``owner`` is the name under which a call writes; those that read have none. ``size`` are the bytes of
    the resource that it brings.
    """

    verb: Verb
    type: str
    namespace: str
    id: str | None = None
    owner: str = ""
    size: int = 0


type Guard = Callable[[Call, ResourceAccess], Awaitable[None]]
"""RpcError when the call may not do this."""


type View = Callable[[Resource[Message], Call], Awaitable[Resource[Message]]]
"""The view of a resource for the client that made a call."""


def make_state_service(state: State, *, guard: Guard | None = None, view: View | None = None) -> Service:
    """The service; everything is allowed unless there is a guard, and returned unchanged without a view."""
    handlers = _Handlers(state, guard, view)
    return Service(
        state_pb2.DESCRIPTOR.services_by_name["State"],
        {
            "Get": handlers.get,
            "List": handlers.list,
            "Create": handlers.create,
            "Update": handlers.update,
            "Teardown": handlers.teardown,
            "Destroy": handlers.destroy,
            "TeardownAndDestroy": handlers.teardown_and_destroy,
            "Watch": handlers.watch,
        },
    )


class _Handlers:
    def __init__(self, state: State, guard: Guard | None, view: View | None) -> None:
        self._state = state
        self._guard = guard
        self._view = view

    async def get(self, request: state_pb2.GetRequest, call: Call) -> state_pb2.GetResponse:
        kind = await self._admit(call, Verb.GET, request, id=request.id)
        with _StatusOfStateError():
            stored = await self._state.get(kind, request.id, namespace=request.namespace)
            found = await self._show(stored, call)
        return state_pb2.GetResponse(resource=resource_to_proto(kind, found, with_yaml=_wants_yaml(call)))

    async def list(self, request: state_pb2.ListRequest, call: Call, send: Send) -> None:
        kind = await self._admit(call, Verb.LIST, request)
        query = parse_query(request.options.label_query, request.options.id_query)
        with _StatusOfStateError():
            found = await self._state.list(kind, namespace=request.namespace, query=query)
        with_yaml = _wants_yaml(call)
        for item in found:
            shown = await self._show(item, call)
            await send(state_pb2.ListResponse(resource=resource_to_proto(kind, shown, with_yaml=with_yaml)))

    async def create(self, request: state_pb2.CreateRequest, call: Call) -> state_pb2.CreateResponse:
        given = request.resource.metadata
        kind = await self._admit(
            call,
            Verb.CREATE,
            given,
            id=given.id,
            owner=request.options.owner,
            size=request.resource.ByteSize(),
        )
        resource = resource_from_proto(kind, request.resource)
        with _StatusOfStateError():
            stored = await self._state.create(resource, owner=request.options.owner)
        return state_pb2.CreateResponse(resource=resource_to_proto(kind, stored, with_yaml=_wants_yaml(call)))

    async def update(self, request: state_pb2.UpdateRequest, call: Call) -> state_pb2.UpdateResponse:
        given = request.new_resource.metadata
        kind = await self._admit(
            call,
            Verb.UPDATE,
            given,
            id=given.id,
            owner=request.options.owner,
            size=request.new_resource.ByteSize(),
        )
        resource = resource_from_proto(kind, request.new_resource)
        phase: Phase | None = None
        if request.options.HasField("expected_phase"):
            try:
                phase = Phase(request.options.expected_phase)
            except ValueError as error:
                raise RpcError(Code.INVALID_ARGUMENT, str(error)) from error
        with _StatusOfStateError():
            stored = await self._state.update(resource, owner=request.options.owner, expected_phase=phase)
        return state_pb2.UpdateResponse(resource=resource_to_proto(kind, stored, with_yaml=_wants_yaml(call)))

    async def teardown(self, request: state_pb2.TeardownRequest, call: Call) -> state_pb2.TeardownResponse:
        kind = await self._admit(call, Verb.TEARDOWN, request, id=request.id, owner=request.options.owner)
        with _StatusOfStateError():
            is_ready = await self._state.teardown(
                kind, request.id, namespace=request.namespace, owner=request.options.owner
            )
        return state_pb2.TeardownResponse(destroy_ready=is_ready)

    async def destroy(self, request: state_pb2.DestroyRequest, call: Call) -> state_pb2.DestroyResponse:
        kind = await self._admit(call, Verb.DESTROY, request, id=request.id, owner=request.options.owner)
        with _StatusOfStateError():
            await self._state.destroy(
                kind, request.id, namespace=request.namespace, owner=request.options.owner
            )
        return state_pb2.DestroyResponse()

    async def teardown_and_destroy(
        self, request: state_pb2.TeardownAndDestroyRequest, call: Call
    ) -> state_pb2.TeardownAndDestroyResponse:
        kind = await self._admit(call, Verb.DESTROY, request, id=request.id, owner=request.options.owner)
        with _StatusOfStateError():
            await teardown_and_destroy(
                self._state, kind, request.id, namespace=request.namespace, owner=request.options.owner
            )
        return state_pb2.TeardownAndDestroyResponse()

    async def watch(self, request: state_pb2.WatchRequest, call: Call, send: Send) -> None:
        one = request.id if request.HasField("id") else None
        kind = await self._admit(call, Verb.WATCH, request, id=one)
        options = parse_watch_options(request)
        query = parse_query(request.options.label_query, request.options.id_query)
        with _StatusOfStateError():
            async with self._state.watch(
                kind, one, namespace=request.namespace, query=query, options=options
            ) as events:
                # Empty: the watch is in place.
                await send(state_pb2.WatchResponse())
                hidden = _NOT_FOR_OLD_CLIENTS if request.api_version < 1 else frozenset[EventType]()
                with_yaml = _wants_yaml(call)
                async for batch in events:
                    reply, size = state_pb2.WatchResponse(), 0
                    for event in batch:
                        if event.type in hidden:
                            continue
                        seen = await self._show_event(event, call)
                        shown = _MESSAGES.make(kind, seen, with_yaml=with_yaml)
                        more = shown.ByteSize() if len(batch) > 1 else 0
                        if reply.event and size + more > MAX_EVENTS:
                            await send(reply)
                            reply, size = state_pb2.WatchResponse(), 0
                        reply.event.append(shown)
                        size += more
                    if reply.event:
                        await send(reply)

    async def _show(self, resource: Resource[Message], call: Call) -> Resource[Message]:
        return resource if self._view is None else await self._view(resource, call)

    async def _show_event(self, event: Event[Message], call: Call) -> Event[Message]:
        """The event as the caller sees it: itself when nothing of it is hidden, as it is for most."""
        if self._view is None:
            return event
        resource = None if event.resource is None else await self._view(event.resource, call)
        old = None if event.old is None else await self._view(event.old, call)
        if resource is event.resource and old is event.old:
            return event
        return replace(event, resource=resource, old=old)

    async def _admit(
        self,
        call: Call,
        verb: Verb,
        target: "_Target",
        *,
        id: str | None = None,
        owner: str = "",
        size: int = 0,
    ) -> Kind[Message]:
        if self._guard is not None:
            namespace = target.namespace
            access = ResourceAccess(
                verb=verb, type=target.type, namespace=namespace, id=id, owner=owner, size=size
            )
            await self._guard(call, access)
        kind = REGISTRY.get(target.type)
        if kind is None:
            raise RpcError(Code.INVALID_ARGUMENT, f'resource type "{target.type}" is not supported')
        return kind


class _Target(Protocol):
    """A request, or a resource's metadata: it names a type and a namespace."""

    @property
    def type(self) -> str: ...
    @property
    def namespace(self) -> str: ...


_NOT_FOR_OLD_CLIENTS = frozenset({EventType.BOOTSTRAPPED, EventType.ERRORED})


class _StatusOfStateError:
    """Turns a refusal of the State into the status the wire has for it."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StateError):
            code = next(code for refusal, code in _CODES if isinstance(error, refusal))
            raise RpcError(code, str(error)) from error


def _wants_yaml(call: Call) -> bool:
    return any(call.metadata.get(key) != value for key, value in PLAIN_SPECS.items())
