"""A connection within the process: it encodes and decodes, and can be broken."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from talos.api.rpc import Call, Code, RpcError, Service
from talos.system.errors import UserError


class LoopbackTransport:
    """Implements :class:`talos.api.rpc.Transport` over services, without any gRPC."""

    def __init__(self, *services: Service) -> None:
        self.services = services
        self.is_down = False
        self.roles: tuple[str, ...] = ()
        self.requests: list[tuple[str, Message]] = []
        self._scopes: set[trio.CancelScope] = set()

    def break_streams(self) -> None:
        """Cut every stream, as a lost connection does."""
        for scope in self._scopes:
            scope.cancel()

    async def unary[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's
    ) -> R:
        self._check_up()
        try:
            answer = await self._handler(method)(self._decoded(method, request), self._call(method, metadata))
        except UserError as error:
            raise RpcError(Code.INVALID_ARGUMENT, str(error)) from error
        return reply.FromString(answer.SerializeToString())

    @asynccontextmanager
    async def stream[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's
    ) -> AsyncGenerator[AsyncIterator[R]]:
        self._check_up()
        sender, receiver = trio.open_memory_channel[R | RpcError](0)
        scope = trio.CancelScope()

        async def send(message: Message) -> None:
            await sender.send(reply.FromString(message.SerializeToString()))

        async def serve() -> None:
            async with sender:
                try:
                    with scope:
                        await self._handler(method)(
                            self._decoded(method, request), self._call(method, metadata), send
                        )
                except RpcError as error:
                    await sender.send(error)
                if scope.cancelled_caught:
                    await sender.send(RpcError(Code.UNAVAILABLE, "connection lost"))

        async def receive() -> AsyncGenerator[R]:
            async for item in receiver:
                if isinstance(item, RpcError):
                    raise item
                yield item

        failure: Exception | None = None
        self._scopes.add(scope)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            replies = receive()
            try:
                yield replies
            except Exception as error:  # noqa: BLE001 - raised again below
                failure = error
            finally:
                self._scopes.discard(scope)
                await replies.aclose()
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _check_up(self) -> None:
        if self.is_down:
            raise RpcError(Code.UNAVAILABLE, "nobody listens")

    def _handler(self, method: str):
        service, name = method.removeprefix("/").split("/")
        (found,) = [item for item in self.services if item.descriptor.full_name == service]
        return found.handlers[name]

    def _decoded(self, method: str, request: Message) -> Message:
        service, name = method.removeprefix("/").split("/")
        (found,) = [item for item in self.services if item.descriptor.full_name == service]
        self.requests.append((name, request))
        message = GetMessageClass(found.descriptor.methods_by_name[name].input_type)
        return message.FromString(request.SerializeToString())

    def _call(self, method: str, metadata: Mapping[str, Sequence[str]] | None) -> Call:
        values = {key: tuple(value) for key, value in (metadata or {}).items()}
        if self.roles:
            values["talos-role"] = self.roles
        return Call(method=method, metadata=values, deadline=float("inf"), peer="loopback")
