"""Passing calls on to this node's daemons and to others, as bytes and unchanged. It runs on asyncio alone."""

import asyncio
from collections.abc import Awaitable, Callable

from talos.api.methods import StreamKind, max_reply, max_request, stream_kind
from talos.api.rpc import Code, RpcError
from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.client import Channel, LocalChannel, NotConnectedError
from talos.rpc.http2.client_call import ClientCall
from talos.rpc.http2.local_limits import LocalLimits
from talos.rpc.http2.server import LocalServer
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.limits import MAX_FORWARDED_METADATA
from talos.rpc.protocol import Metadata, Status, check_size
from talos.rpc.proxy.raw import RawCall, receive_one, send_only, take_replies
from talos.rpc.status import to_rpc_error
from talos.system.logging import Log

type CallHandler = Callable[[ServerCall], Awaitable[Status]]


def open_local(path: str) -> LocalChannel:
    """A channel to a unix socket; it connects when it is needed."""
    return LocalChannel(path, ASYNCIO)


def make_server(handler: CallHandler, log: Log, limits: LocalLimits | None = None) -> LocalServer:
    """A server that gives every call to one handler."""
    loop = asyncio.get_running_loop()

    async def run(call: ServerCall) -> None:
        try:
            status = await handler(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            status = Status.of(to_rpc_error(error, call.method, log))
        call.finish(status)

    def begin(call: ServerCall) -> None:
        call.cancel = loop.create_task(run(call)).cancel

    return LocalServer(begin, ASYNCIO, max_request, log, limits)


async def forward(
    call: RawCall, channel: Channel, metadata: Metadata, *, to: str, memory: ClientQuota, client: str
) -> Status:
    """Pass a call on with this metadata and its replies back; returns how it ended.

    ``to`` is what is behind the channel, for the error that it can't be reached. ``memory`` has the large
    replies from their first bytes until they are sent, for the client that ``client`` stands for.
    """
    check_size(metadata, MAX_FORWARDED_METADATA)
    kind = stream_kind(call.method)
    request = await receive_one(call) if kind in {StreamKind.UNARY, StreamKind.SERVER} else None
    try:
        upstream = await channel.begin(call.method, metadata, call.time_remaining())
    except NotConnectedError as error:
        return Status(code=error.code, message=f"{to} can't be reached: {error.reason}")
    upload: asyncio.Task[None] | None = None
    upstream.charge(memory, client, max_reply(call.method))
    try:
        if request is None:
            upload = asyncio.get_running_loop().create_task(_upload(call, upstream))
        else:
            await send_only(upstream, request)
        if kind is StreamKind.UNARY:
            return await _take_reply(call, upstream)
        return await take_replies(call, upstream)
    finally:
        upstream.leave()
        if upload is not None:
            upload.cancel()


async def _take_reply(call: RawCall, upstream: ClientCall) -> Status:
    message = await upstream.receive()
    status = await upstream.end()
    if upstream.headers:
        await call.send_headers(upstream.headers)
    if message is not None and not status.code:
        await call.send(message)
    return status


async def _upload(call: RawCall, upstream: ClientCall) -> None:
    """Pass requests on until there are no more or the call has ended."""
    try:
        while (message := await call.receive()) is not None:
            await upstream.send(message)
        upstream.send_end()
    except RpcError as error:
        upstream.cancel(error)
    except Exception as error:
        upstream.cancel(RpcError(Code.INTERNAL, "the request could not be read"))
        raise error from None
