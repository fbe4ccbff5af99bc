"""The State of another process, over ``cosi.resource.State``."""

import builtins
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast, override

import trio
from google.protobuf.message import Message

from talos.api.cosi import state_pb2
from talos.api.rpc import Code, RpcError, Transport
from talos.resource.kind import Kind
from talos.resource.kinds import REGISTRY
from talos.resource.query import ALL, Query
from talos.resource.remote.watch import SERVICE, RemoteWatch, query_to_proto
from talos.resource.resource import Phase, Resource
from talos.resource.state import (
    FROM_NOW,
    AlreadyExistsError,
    ConflictError,
    EventStream,
    NotFoundError,
    OwnerConflictError,
    PhaseConflictError,
    State,
    StateError,
    UnavailableError,
    WatchOptions,
)
from talos.resource.yaml.spec import (
    PLAIN_SPECS,
    new_resource_to_proto,
    resource_from_proto,
    resource_to_proto,
)

_WRITE_ERRORS: dict[Code, type[StateError]] = {
    Code.NOT_FOUND: NotFoundError,
    Code.ALREADY_EXISTS: AlreadyExistsError,
    Code.PERMISSION_DENIED: OwnerConflictError,
    Code.INVALID_ARGUMENT: PhaseConflictError,
    Code.FAILED_PRECONDITION: ConflictError,
    Code.UNAVAILABLE: UnavailableError,
}
_READ_ERRORS: dict[Code, type[StateError]] = {
    Code.NOT_FOUND: NotFoundError,
    Code.UNAVAILABLE: UnavailableError,
}


class RemoteState(State):
    """Implements :class:`talos.resource.state.State` over a connection.

    Calls are not repeated when the connection fails (UnavailableError), watches go on by
    themselves: see :class:`talos.resource.remote.watch.RemoteWatch`.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @override
    async def get[S: Message](self, kind: Kind[S], id: str, *, namespace: str | None = None) -> Resource[S]:
        request = state_pb2.GetRequest(namespace=kind.choose_namespace(namespace), type=kind.type, id=id)
        reply = await self._unary("Get", request, state_pb2.GetResponse, _READ_ERRORS)
        return resource_from_proto(kind, reply.resource)

    @override
    async def list[S: Message](
        self, kind: Kind[S], *, namespace: str | None = None, query: Query = ALL
    ) -> list[Resource[S]]:
        labels, ids = query_to_proto(query)
        request = state_pb2.ListRequest(
            namespace=kind.choose_namespace(namespace),
            type=kind.type,
            options=state_pb2.ListOptions(label_query=labels, id_query=ids),
        )
        found: builtins.list[Resource[S]] = []
        try:
            async with self._transport.stream(
                SERVICE + "List", request, state_pb2.ListResponse, metadata=PLAIN_SPECS
            ) as replies:
                async for reply in replies:
                    found.append(resource_from_proto(kind, reply.resource))  # noqa: PERF401 - see pyright
        except RpcError as error:
            raise _READ_ERRORS.get(error.code, StateError)(error.reason) from error
        return found

    @override
    async def create[S: Message](self, resource: Resource[S], *, owner: str = "") -> Resource[S]:
        kind = _kind(resource)
        request = state_pb2.CreateRequest(
            resource=new_resource_to_proto(kind, resource), options=state_pb2.CreateOptions(owner=owner)
        )
        reply = await self._unary("Create", request, state_pb2.CreateResponse, _WRITE_ERRORS)
        return resource_from_proto(kind, reply.resource)

    @override
    async def update[S: Message](
        self, resource: Resource[S], *, owner: str = "", expected_phase: Phase | None = Phase.RUNNING
    ) -> Resource[S]:
        kind = _kind(resource)
        phase = None if expected_phase is None else expected_phase.value
        request = state_pb2.UpdateRequest(
            new_resource=resource_to_proto(kind, resource, with_yaml=False),
            options=state_pb2.UpdateOptions(owner=owner, expected_phase=phase),
        )
        reply = await self._unary("Update", request, state_pb2.UpdateResponse, _WRITE_ERRORS)
        return resource_from_proto(kind, reply.resource)

    @override
    async def teardown(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> bool:
        request = state_pb2.TeardownRequest(
            namespace=kind.choose_namespace(namespace),
            type=kind.type,
            id=id,
            options=state_pb2.TeardownOptions(owner=owner),
        )
        reply = await self._unary("Teardown", request, state_pb2.TeardownResponse, _WRITE_ERRORS)
        return reply.destroy_ready

    @override
    async def destroy(
        self, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
    ) -> None:
        request = state_pb2.DestroyRequest(
            namespace=kind.choose_namespace(namespace),
            type=kind.type,
            id=id,
            options=state_pb2.DestroyOptions(owner=owner),
        )
        await self._unary("Destroy", request, state_pb2.DestroyResponse, _WRITE_ERRORS)

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
        """Events of one resource or of a whole kind, across broken connections."""
        options.check()
        watch = RemoteWatch(self._transport, kind, kind.choose_namespace(namespace), id, query, options)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            # The nursery would wrap what the caller raises into a group.
            try:
                await nursery.start(watch.run)
                yield watch
            except Exception as error:  # noqa: BLE001 - raised again below
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _unary[R: Message](
        self, method: str, request: Message, reply: type[R], errors: dict[Code, type[StateError]]
    ) -> R:
        try:
            return await self._transport.unary(SERVICE + method, request, reply, metadata=PLAIN_SPECS)
        except RpcError as error:
            raise errors.get(error.code, StateError)(error.reason) from error


def _kind[S: Message](resource: Resource[S]) -> Kind[S]:
    return cast("Kind[S]", REGISTRY[resource.metadata.type])
