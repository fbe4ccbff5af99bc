"""A gRPC client, as trio sees it: of a server on a unix socket or in the network."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import trio
from google.protobuf.message import DecodeError, Message

from talos.api.rpc import Code, DuplexCall, DuplexTransport, RpcError
from talos.rpc.bridge import TRIO, Bridge, Host
from talos.rpc.http2.client import Channel, LocalChannel
from talos.rpc.http2.client_call import ClientCall
from talos.rpc.port.remote import RemoteChannel, RemoteServer
from talos.rpc.protocol import DEADLINE_EXCEEDED, Metadata
from talos.rpc.status import check_status


@asynccontextmanager
async def open_channel(
    host: Host, path: Path | str, *, wait_for_ready: bool = False
) -> AsyncGenerator[DuplexTransport]:
    """A channel to the server on a unix socket; it connects and reconnects by itself.

    While nothing listens a call fails with UNAVAILABLE, or with ``wait_for_ready`` it waits.
    """
    async with open_local(host, path, wait_for_ready=wait_for_ready) as channel:
        yield _Channel(channel)


@asynccontextmanager
async def open_local(
    host: Host, path: Path | str, *, wait_for_ready: bool = False
) -> AsyncGenerator[LocalChannel]:
    """The same for calls as bytes."""

    async def make() -> LocalChannel:
        return LocalChannel(path, TRIO, wait_for_ready=wait_for_ready)

    channel = await host.bridge.call(make)
    try:
        yield channel
    finally:
        channel.close()


@asynccontextmanager
async def open_remote(bridge: Bridge, server: RemoteServer) -> AsyncGenerator[DuplexTransport]:
    """A channel to a server in the network; a call fails with UNAVAILABLE while it can't be reached."""

    async def make() -> RemoteChannel:
        return RemoteChannel(server, TRIO)

    channel = await bridge.call(make)
    try:
        yield _Channel(channel)
    finally:
        channel.close()


class _Channel:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def unary[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels to the server
    ) -> R:
        call = await self._begin(method, request, metadata, timeout)
        try:
            message = await call.receive()
            check_status(await call.end())
        finally:
            call.cancel()
        if message is None:
            raise RpcError(Code.INTERNAL, "the reply has no message")
        return _decode(reply, message)

    @asynccontextmanager
    async def stream[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels to the server
    ) -> AsyncGenerator[AsyncIterator[R]]:
        call = await self._begin(method, request, metadata, timeout)
        try:
            yield _Replies(call, lambda message: _decode(reply, message))
        finally:
            call.cancel()

    @asynccontextmanager
    async def duplex[R: Message](
        self,
        method: str,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
    ) -> AsyncGenerator[DuplexCall[R]]:
        call = await self._channel.begin(method, _pairs(metadata), None)
        try:
            yield _Duplex(call, reply)
        finally:
            call.cancel()

    async def _begin(
        self,
        method: str,
        request: Message,
        metadata: Mapping[str, Sequence[str]] | None,
        timeout: float | None,  # noqa: ASYNC109
    ) -> ClientCall:
        """Begin a call and send its request; waiting for the server counts as a part of the time."""
        call: ClientCall | None = None
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            call = await self._channel.begin(method, _pairs(metadata), timeout)
        if call is None:
            raise RpcError(Code.DEADLINE_EXCEEDED, DEADLINE_EXCEEDED.message)
        try:
            await call.send(request.SerializeToString(), last=True)
        except RpcError:
            pass  # the call has ended; how, its reader finds out
        except BaseException:
            call.cancel()
            raise
        return call


class _Duplex[R: Message]:
    """Requests and replies of one call."""

    def __init__(self, call: ClientCall, reply: type[R]) -> None:
        self._call = call
        self._reply = reply

    async def send(self, request: Message) -> None:
        try:
            await self._call.send(request.SerializeToString())
        except RpcError:
            check_status(await self._call.end())
            raise

    async def receive(self) -> R:
        message = await self._call.receive()
        if message is None:
            check_status(await self._call.end())
            raise RpcError(Code.INTERNAL, "the server ended the call early")
        return _decode(self._reply, message)

    async def finish(self) -> None:
        self._call.send_end()
        while await self._call.receive() is not None:
            pass


class _Replies[R: Message]:
    """The replies of a stream, no faster than they are read."""

    def __init__(self, call: ClientCall, decode: Callable[[bytes], R]) -> None:
        self._call = call
        self._decode = decode

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        message = await self._call.receive()
        if message is None:
            check_status(await self._call.end())
            raise StopAsyncIteration
        return self._decode(message)


def _pairs(metadata: Mapping[str, Sequence[str]] | None) -> Metadata:
    return tuple((key, value) for key, values in (metadata or {}).items() for value in values)


def _decode[R: Message](reply: type[R], message: bytes) -> R:
    try:
        return reply.FromString(message)
    except DecodeError:
        raise RpcError(Code.INTERNAL, f"the reply is not a {reply.DESCRIPTOR.full_name}") from None
