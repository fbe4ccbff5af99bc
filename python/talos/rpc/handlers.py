"""From trio handlers of all four arities to what grpc.aio calls."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import trio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from talos.api.rpc import Call, Code, Handler, RpcError, Service
from talos.rpc.bridge import Host, Inbox, Outbox
from talos.rpc.limits import STREAM_BYTES, STREAM_WINDOW
from talos.rpc.status import STATUS_CODES, make_trailers, to_rpc_error

type Context = grpc.aio.ServicerContext[bytes, bytes]


def make_method_handlers(
    host: Host, service: Service, calls: trio.Nursery
) -> "dict[str, grpc.RpcMethodHandler[bytes, bytes]]":
    """What grpc needs for each method that the service has a handler for.

    Handlers run in the nursery ``calls``. Messages cross as bytes: what can't be parsed is
    the caller's mistake and is answered as one.
    """
    return {
        method.name: _Method(host, method, service.handlers[method.name], calls).make()
        for method in service.descriptor.methods
        if method.name in service.handlers
    }


async def _write(context: Context, reply: bytes) -> None:
    """Send a reply. That fails only when the caller has gone: the call is over, nothing is wrong."""
    try:
        await context.write(reply)
    except Exception:  # noqa: BLE001 - grpc's class for it is private
        raise asyncio.CancelledError from None


class _Method:
    """One method of a service."""

    def __init__(self, host: Host, method: MethodDescriptor, handler: Handler, calls: trio.Nursery) -> None:
        self._bridge = host.bridge
        self._log = host.log
        self._handler = handler
        self._calls = calls
        self._path = f"/{method.containing_service.full_name}/{method.name}"
        self._streams = (method.client_streaming, method.server_streaming)
        self._request: type[Message] = GetMessageClass(method.input_type)
        self._reply: type[Message] = GetMessageClass(method.output_type)

    def make(self) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """The handler of this method's arity."""
        match self._streams:
            case (False, False):
                return grpc.unary_unary_rpc_method_handler(self._unary)
            case (False, True):
                return grpc.unary_stream_rpc_method_handler(self._server_stream)
            case (True, False):
                return grpc.stream_unary_rpc_method_handler(self._client_stream)
            case _:
                return grpc.stream_stream_rpc_method_handler(self._both_streams)

    async def _unary(self, request: bytes, context: Context) -> bytes:
        async def work() -> bytes:
            return self._encode(await self._run(self._handler, self._decode(request), self._call(context)))

        return await self._guard(context, work)

    async def _server_stream(self, request: bytes, context: Context) -> None:
        async def work() -> None:
            await self._write_replies(context, self._decode(request))

        await self._guard(context, work)

    async def _client_stream(self, requests: AsyncIterator[bytes], context: Context) -> bytes:
        async def work() -> bytes:
            async with _Feed(self._decode, requests) as inbox:
                return self._encode(await self._run(self._handler, inbox, self._call(context)))

        return await self._guard(context, work)

    async def _both_streams(self, requests: AsyncIterator[bytes], context: Context) -> None:
        async def work() -> None:
            async with _Feed(self._decode, requests) as inbox:
                await self._write_replies(context, inbox)

        await self._guard(context, work)

    async def _write_replies(self, context: Context, request: Message | Inbox[Message]) -> None:
        outbox = Outbox(STREAM_WINDOW, STREAM_BYTES)

        async def send(reply: Message) -> None:
            await outbox.put(self._encode(reply))

        async def handle() -> None:
            try:
                await self._handler(request, self._call(context), send)
            finally:
                outbox.close()

        task = self._bridge.loop.create_task(self._run(handle))
        # A handler that never started doesn't close its outbox.
        task.add_done_callback(lambda _: outbox.close())
        try:
            async for reply in outbox:
                await _write(context, reply)
            await task
        finally:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()

    async def _run[R](self, function: Callable[..., Awaitable[R]], *args: Any) -> R:
        return await self._bridge.run(self._calls, function, *args)

    async def _guard[R](self, context: Context, work: Callable[[], Awaitable[R]]) -> R:
        """Turn errors into a status; here, in the call's own task, after all its writes.

        An abort that races with a write hangs the call.
        """
        try:
            return await work()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            failure = to_rpc_error(error, self._path, self._log)
        await context.abort(STATUS_CODES[failure.code], failure.message, make_trailers(failure))
        raise AssertionError("abort does not return")

    def _decode(self, request: bytes) -> Message:
        try:
            return self._request.FromString(request)
        except DecodeError:
            name = self._request.DESCRIPTOR.full_name
            raise RpcError(Code.INVALID_ARGUMENT, f"the request is not a {name}") from None

    def _encode(self, reply: Message) -> bytes:
        if not isinstance(reply, self._reply):
            raise TypeError(f"{self._path} replied with {type(reply).__name__}")
        return reply.SerializeToString()

    def _call(self, context: Context) -> Call:
        remaining = cast("float | None", context.time_remaining())  # the stubs forget None
        metadata: dict[str, tuple[str, ...]] = {}
        for key, value in context.invocation_metadata() or ():
            if isinstance(value, str):  # keys that end in -bin are not for handlers
                metadata[key] = (*metadata.get(key, ()), value)
        return Call(
            method=self._path,
            metadata=metadata,
            deadline=float("inf") if remaining is None else trio.current_time() + remaining,
            peer=context.peer(),
        )


class _Feed:
    """Pumps a caller's stream into an inbox, no faster than the handler reads."""

    def __init__(self, decode: Callable[[bytes], Message], requests: AsyncIterator[bytes]) -> None:
        self._decode = decode
        self._requests = requests
        self._inbox: Inbox[Message] = Inbox(STREAM_WINDOW)

    async def __aenter__(self) -> Inbox[Message]:
        self._task = asyncio.get_running_loop().create_task(self._pump())
        return self._inbox

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _pump(self) -> None:
        try:
            async for request in self._requests:
                await self._inbox.put(self._decode(request))
        except RpcError as error:
            self._inbox.close(error)
        finally:
            self._inbox.close()
