"""A gRPC client of a server in the network, as trio sees it."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from google.protobuf.message import DecodeError, Message

from talos.api.rpc import Code, RpcError, Transport
from talos.rpc.bridge import Bridge, HostCancelledError

if TYPE_CHECKING:
    import grpc.aio


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTls:
    """TLS towards a server. Empty ``authorities`` are the image's own; all PEM."""

    authorities: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


@asynccontextmanager
async def open_remote(
    bridge: Bridge,
    target: str,
    tls: RemoteTls | None,
    *,
    max_message: int,
    keepalive: float,
) -> AsyncGenerator[Transport]:
    """A connection to ``target``, a name of grpc's; without ``tls`` it is not encrypted.

    It connects with the first call and reconnects by itself; a call fails with UNAVAILABLE while it can't.
    ``max_message`` is in bytes; after ``keepalive`` seconds of silence the server is probed.
    """
    channel = await bridge.call(_make_channel, target, tls, max_message, keepalive)
    try:
        yield _Remote(bridge, channel)
    finally:
        # Not awaited: a task that is cancelled shall end at once.
        bridge.loop.call_soon(lambda: bridge.loop.create_task(channel.close()))


async def _make_channel(
    target: str, tls: RemoteTls | None, max_message: int, keepalive: float
) -> "grpc.aio.Channel":
    import grpc.aio  # 10 MiB that a daemon without remote servers doesn't load

    options = (
        ("grpc.max_receive_message_length", max_message),
        ("grpc.keepalive_time_ms", int(keepalive * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
    )
    if tls is None:
        return grpc.aio.insecure_channel(target, options)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.authorities or None,
        private_key=tls.key or None,
        certificate_chain=tls.certificate or None,
    )
    return grpc.aio.secure_channel(target, credentials, options)


class _Remote:
    """Implements :class:`talos.api.rpc.Transport`. Messages are decoded here: what is damaged is an error."""

    def __init__(self, bridge: Bridge, channel: "grpc.aio.Channel") -> None:
        self._bridge = bridge
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
        async def call() -> bytes:
            make = cast("Any", self._channel).unary_unary(method)
            call = make(request.SerializeToString(), timeout=timeout, metadata=_pairs(metadata))
            return cast("bytes", await call)

        return _decode(reply, await _translated(self._bridge, call))

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
        async def begin() -> Any:
            make = cast("Any", self._channel).unary_stream(method)
            return make(request.SerializeToString(), timeout=timeout, metadata=_pairs(metadata))

        call = await self._bridge.call(begin)
        try:
            yield _Replies(self._bridge, call, lambda message: _decode(reply, message))
        finally:
            self._bridge.loop.call_soon(call.cancel)


class _Replies[R: Message]:
    """The replies of a stream, no faster than they are read."""

    def __init__(self, bridge: Bridge, call: Any, decode: Callable[[bytes], R]) -> None:
        self._bridge = bridge
        self._call = call
        self._decode = decode

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        message = await _translated(self._bridge, self._call.read)
        if not isinstance(message, bytes):
            raise StopAsyncIteration
        return self._decode(message)


async def _translated(bridge: Bridge, function: Callable[[], Awaitable[Any]]) -> Any:
    """Run a function of grpc's on asyncio; its error is an RpcError."""
    import grpc.aio

    async def call() -> Any:
        return await function()

    try:
        return await bridge.call(call)
    except grpc.aio.AioRpcError as error:
        raise RpcError(Code(error.code().value[0]), error.details() or error.code().name) from None
    except HostCancelledError:
        raise RpcError(Code.CANCELLED, "the call was cancelled") from None


def _decode[R: Message](reply: type[R], message: bytes) -> R:
    try:
        return reply.FromString(message)
    except DecodeError:
        raise RpcError(Code.INTERNAL, f"the reply is not a {reply.DESCRIPTOR.full_name}") from None


def _pairs(metadata: Mapping[str, Sequence[str]] | None) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, values in (metadata or {}).items() for value in values)
