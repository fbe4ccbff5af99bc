"""A gRPC client on a unix socket, as trio sees it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, cast

import grpc
import grpc.aio
import trio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.protobuf.symbol_database import Default

from talos.api.google.rpc import status_pb2
from talos.api.rpc import Code, RpcError, Transport
from talos.rpc.bridge import Bridge, Host, HostCancelledError, Inbox
from talos.rpc.limits import MESSAGE_OPTIONS, STREAM_WINDOW
from talos.rpc.status import STATUS_DETAILS

CHANNEL_OPTIONS = (
    *MESSAGE_OPTIONS,
    # A restarted daemon shall be found soon: gRPC would wait 20 s to 120 s.
    ("grpc.initial_reconnect_backoff_ms", 50),
    # This one is the time for connecting: a busy machine may take its time to answer.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

type Metadata = Mapping[str, Sequence[str]]


@asynccontextmanager
async def open_channel(
    host: Host, path: Path | str, *, wait_for_ready: bool = False
) -> AsyncGenerator[Transport]:
    """A channel to the server on a unix socket; it connects and reconnects by itself.

    While nobody listens a call fails with UNAVAILABLE, or with ``wait_for_ready`` it waits.
    """
    channel = grpc.aio.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS)
    try:
        yield _Channel(host.bridge, channel, wait_for_ready=wait_for_ready)
    finally:
        with trio.CancelScope(shield=True):
            await host.bridge.call(channel.close)


class _StreamCall(Protocol):
    """What is used of grpc's call; its own stubs leave the messages' type open."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    def cancel(self) -> bool: ...


class _Channel:
    def __init__(self, bridge: Bridge, channel: grpc.aio.Channel, *, wait_for_ready: bool) -> None:
        self._bridge = bridge
        self._channel = channel
        self._wait = wait_for_ready

    async def unary[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Metadata | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels to the server
    ) -> R:
        async def call() -> bytes:
            ask = cast("Callable[..., Awaitable[bytes]]", self._channel.unary_unary(method))
            return await ask(
                request.SerializeToString(),
                metadata=_pairs(metadata),
                timeout=timeout,
                wait_for_ready=self._wait,
            )

        return _decode(reply, await _call(self._bridge, call))

    @asynccontextmanager
    async def stream[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Metadata | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels to the server
    ) -> AsyncGenerator[AsyncIterator[R]]:
        inbox: Inbox[R] = Inbox(STREAM_WINDOW)

        async def pump() -> None:
            start = cast("Callable[..., _StreamCall]", self._channel.unary_stream(method))
            call = start(
                request.SerializeToString(),
                metadata=_pairs(metadata),
                timeout=timeout,
                wait_for_ready=self._wait,
            )
            try:
                async for message in call:
                    await inbox.put(_decode(reply, message))
                inbox.close()
            except grpc.aio.AioRpcError as error:
                inbox.close(_to_rpc_error(error))
            except RpcError as error:
                inbox.close(error)
            finally:
                call.cancel()
                inbox.close(RpcError(Code.CANCELLED, "the channel was closed"))

        task = self._bridge.loop.create_task(pump())
        try:
            yield inbox
        finally:
            task.cancel()
            with trio.CancelScope(shield=True):
                await self._bridge.call(_join, task)


async def _join(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


async def _call(bridge: Bridge, call: Callable[[], Awaitable[bytes]]) -> bytes:
    async def run() -> bytes:
        return await call()

    try:
        return await bridge.call(run)
    except grpc.aio.AioRpcError as error:
        raise _to_rpc_error(error) from None
    except HostCancelledError:
        raise RpcError(Code.CANCELLED, "the channel was closed") from None
    except grpc.aio.UsageError:
        raise RpcError(Code.CANCELLED, "the channel is closed") from None


def _pairs(metadata: Metadata | None) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, values in (metadata or {}).items() for value in values)


def _decode[R: Message](reply: type[R], message: bytes) -> R:
    try:
        return reply.FromString(message)
    except DecodeError:
        raise RpcError(Code.INTERNAL, f"the reply is not a {reply.DESCRIPTOR.full_name}") from None


def _to_rpc_error(error: grpc.aio.AioRpcError) -> RpcError:
    code = Code(cast("tuple[int, str]", error.code().value)[0])
    trailers = dict(error.trailing_metadata() or ())
    packed = trailers.get(STATUS_DETAILS)
    status = status_pb2.Status.FromString(packed) if isinstance(packed, bytes) else status_pb2.Status()
    return RpcError(code, error.details() or code.name, tuple(map(_unpack, status.details)))


def _unpack(detail: AnyMessage) -> Message:
    try:
        return Default().GetSymbol(detail.TypeName()).FromString(detail.value)
    except (KeyError, DecodeError):
        return detail
