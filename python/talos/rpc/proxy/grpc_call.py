"""Any call that comes in over grpc.aio, as bytes. It runs on asyncio alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import grpc
import grpc.aio

from talos.api.methods import StreamKind, largest_request, stream_kind
from talos.rpc.limits import LOCAL_WINDOW
from talos.rpc.proxy.raw import Metadata, Status, check_request, passed_on
from talos.rpc.status import STATUS_CODES, to_rpc_error
from talos.system.logging import Log

type Context = grpc.aio.ServicerContext[bytes, bytes]
type GrpcHandler = Callable[["GrpcCall"], Awaitable[Status]]


class GrpcCall:
    """A call as the handler gets it; see :class:`talos.rpc.proxy.raw.RawCall`."""

    def __init__(self, method: str, context: Context, request: bytes | None) -> None:
        self.method = method
        self.metadata: Metadata = passed_on(context.invocation_metadata())
        self.reply: bytes | None = None
        self._context = context
        self._unary = request is not None
        self._request = request
        self._begun = False

    def time_remaining(self) -> float | None:
        """Seconds until the caller gives up; None when it has set no deadline."""
        return self._context.time_remaining()

    async def receive(self) -> bytes | None:
        """The next request; None after the last one."""
        if self._unary:
            message, self._request = self._request, None
        else:
            read = cast("object", await self._context.read())
            message = read if isinstance(read, bytes) else None  # else the library's EOF
        if message is not None:
            check_request(self.method, len(message))
        return message

    async def send_headers(self, metadata: Metadata) -> None:
        """Begin the reply; nothing happens when it has begun."""
        if not self._begun:
            self._begun = True
            # Without metadata they go out together with the first reply.
            if metadata or not self._unary:
                await self._context.send_initial_metadata(metadata)

    async def send(self, message: bytes) -> None:
        """Send a reply, waiting while the caller does not read."""
        self._begun = True
        if self._unary:
            self.reply = message
        else:
            await self._context.write(message)


class RawGrpcHandler(grpc.GenericRpcHandler):
    """Gives every call, whatever its service, to one handler."""

    def __init__(self, handler: GrpcHandler, log: Log) -> None:
        self._handler = handler
        self._log = log

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """What grpc calls for a method."""
        method = cast("str | bytes", handler_call_details.method)
        path = method.decode("latin-1") if isinstance(method, bytes) else method

        async def unary(request: bytes, context: Context) -> bytes:
            call = GrpcCall(path, context, request)
            await self._run(call, context)
            assert call.reply is not None
            return call.reply

        async def stream(_requests: object, context: Context) -> None:
            await self._run(GrpcCall(path, context, None), context)

        if stream_kind(path) is StreamKind.UNARY:
            return grpc.unary_unary_rpc_method_handler(unary)
        return grpc.stream_stream_rpc_method_handler(stream)

    async def _run(self, call: GrpcCall, context: Context) -> None:
        try:
            status = await self._handler(call)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            status = Status.of(to_rpc_error(error, call.method, self._log))
        if status.code == 0:
            context.set_trailing_metadata(status.trailers)
            return
        code = next((known for number, known in STATUS_CODES.items() if number == status.code), None)
        await context.abort(code or grpc.StatusCode.UNKNOWN, status.message, status.trailers)


def make_server(handler: GrpcHandler, log: Log) -> grpc.aio.Server:
    """A server that gives every call to one handler."""
    options = (
        ("grpc.max_receive_message_length", largest_request()),
        ("grpc.max_send_message_length", -1),
        *LOCAL_WINDOW,
    )
    return grpc.aio.server(handlers=(RawGrpcHandler(handler, log),), options=options)
