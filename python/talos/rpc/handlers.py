"""From trio handlers of all four arities to calls as they come in."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self

import trio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from talos.api.rpc import Call, Code, Handler, RpcError, Service
from talos.rpc.http2.server_call import STOPPING, ServerCall
from talos.rpc.protocol import OK, Status
from talos.rpc.proxy.raw import receive_one
from talos.rpc.status import to_rpc_error
from talos.system.logging import Log

type ServeCall = Callable[[ServerCall], Awaitable[None]]
type CallHandler = Callable[[ServerCall], Awaitable[Status]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """A call that has ended; ``streams`` where either side sends more than one message."""

    method: str
    streams: bool
    status: Status
    seconds: float
    metadata: Sequence[tuple[str, str | bytes]]


type OnEnd = Callable[[CallEnd], None]

HEALTH = "/grpc.health.v1.Health/Check"
"""The standard method, which every server here has."""
SERVING = b"\x08\x01"
"""A HealthCheckResponse with status SERVING."""


async def answer_health(call: ServerCall) -> None:
    """Report SERVING: that this runs shows that handlers do."""
    status = STOPPING
    try:
        with trio.CancelScope() as scope:
            call.cancel = scope.cancel
            await receive_one(call)
            await call.send(SERVING)
            status = OK
    except RpcError as error:
        status = Status.of(error)
    finally:
        call.finish(status)


async def run_handler(handler: CallHandler, call: ServerCall, log: Log) -> Status:
    """Run a handler until it returns how the call ended or the caller cancels; the call then ends."""
    status = STOPPING
    try:
        with trio.CancelScope() as scope:
            call.cancel = scope.cancel
            status = await handler(call)
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
        status = Status.of(to_rpc_error(error, call.method, log))
    finally:
        call.finish(status)
    return status


def make_method_handlers(service: Service, log: Log, on_end: OnEnd | None = None) -> dict[str, ServeCall]:
    """What serves a call, by the path of each method that the service has a handler for.

    What can't be parsed is the caller's mistake and is answered as one.
    """
    methods = [
        _Method(method, service.handlers[method.name], log, on_end)
        for method in service.descriptor.methods
        if method.name in service.handlers
    ]
    return {method.path: method.serve for method in methods}


class _Method:
    """One method of a service."""

    def __init__(self, method: MethodDescriptor, handler: Handler, log: Log, on_end: OnEnd | None) -> None:
        self.path = f"/{method.containing_service.full_name}/{method.name}"
        self._log = log
        self._on_end = on_end
        self._streams = method.client_streaming or method.server_streaming
        self._handler = handler
        self._run = {
            (False, False): self._unary,
            (False, True): self._server_stream,
            (True, False): self._client_stream,
            (True, True): self._both_streams,
        }[method.client_streaming, method.server_streaming]
        self._request: type[Message] = GetMessageClass(method.input_type)
        self._reply: type[Message] = GetMessageClass(method.output_type)

    async def serve(self, call: ServerCall) -> None:
        """Run the handler until it returns or the caller cancels."""
        status, began = STOPPING, time.monotonic()
        try:
            status = await run_handler(self._answer, call, self._log)
        finally:
            if self._on_end is not None:
                end = CallEnd(
                    method=self.path,
                    streams=self._streams,
                    status=status,
                    seconds=time.monotonic() - began,
                    metadata=call.metadata,
                )
                self._on_end(end)

    async def _answer(self, call: ServerCall) -> Status:
        await self._run(call)
        return OK

    async def _unary(self, call: ServerCall) -> None:
        request = self._decode(await receive_one(call))
        await call.send(self._encode(await self._handler(request, self._describe(call))))

    async def _server_stream(self, call: ServerCall) -> None:
        request = self._decode(await receive_one(call))
        await self._handler(request, self._describe(call), self._sender(call))

    async def _client_stream(self, call: ServerCall) -> None:
        requests = _Requests(call, self._decode)
        await call.send(self._encode(await self._handler(requests, self._describe(call))))

    async def _both_streams(self, call: ServerCall) -> None:
        await self._handler(_Requests(call, self._decode), self._describe(call), self._sender(call))

    def _sender(self, call: ServerCall) -> Callable[[Message], Awaitable[None]]:
        async def send(reply: Message) -> None:
            await call.send(self._encode(reply))
            await trio.lowlevel.checkpoint()

        return send

    def _decode(self, request: bytes) -> Message:
        try:
            return self._request.FromString(request)
        except DecodeError:
            name = self._request.DESCRIPTOR.full_name
            raise RpcError(Code.INVALID_ARGUMENT, f"the request is not a {name}") from None

    def _encode(self, reply: Message) -> bytes:
        if not isinstance(reply, self._reply):
            raise TypeError(f"{self.path} replied with {type(reply).__name__}")
        return reply.SerializeToString()

    def _describe(self, call: ServerCall) -> Call:
        remaining = call.time_remaining()
        metadata: dict[str, tuple[str, ...]] = {}
        for key, value in call.metadata:
            if isinstance(value, str):  # keys that end in -bin are not for handlers
                metadata[key] = (*metadata.get(key, ()), value)
        return Call(
            method=self.path,
            metadata=metadata,
            deadline=float("inf") if remaining is None else trio.current_time() + remaining,
            peer="unix:",
        )


class _Requests:
    """A caller's stream, no faster than the handler reads."""

    def __init__(self, call: ServerCall, decode: Callable[[bytes], Message]) -> None:
        self._call = call
        self._decode = decode

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        message = await self._call.receive()
        if message is None:
            raise StopAsyncIteration
        return self._decode(message)
