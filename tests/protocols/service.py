"""``grpc.testing.TestService`` on the project's HTTP/2, as gRPC's description of the interop cases has it."""

import asyncio
from collections.abc import Awaitable, Callable

from talos.api.rpc import Code
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import OK, Metadata, Status
from talos.rpc.proxy.raw import receive_one

from .messages import Class, message

SERVICE = "/grpc.testing.TestService/"
INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
"""Metadata that comes back: before the reply and after it."""
SERVER_ID = "the only one"


async def answer(call: ServerCall) -> Status:
    """Serve one call."""
    method = METHODS.get(call.method)
    if method is None:
        return Status(code=Code.UNIMPLEMENTED, message=f"unknown method {call.method}")
    if initial := _values(call, INITIAL):
        await call.send_headers(initial)
    status = await method(call)
    return Status(code=status.code, message=status.message, trailers=_values(call, TRAILING))


def _values(call: ServerCall, key: str) -> Metadata:
    return tuple(pair for pair in call.metadata if pair[0] == key)


async def _empty(call: ServerCall) -> Status:
    message("Empty").FromString(await receive_one(call))
    await call.send(b"")
    return OK


async def _unary(call: ServerCall) -> Status:
    request = message("SimpleRequest").FromString(await receive_one(call))
    if request.response_status.code:
        return _status(request)
    reply = message("SimpleResponse")(payload=_payload(request.response_size))
    if request.fill_server_id:
        reply.server_id = SERVER_ID
    await call.send(reply.SerializeToString())
    return OK


async def _input(call: ServerCall) -> Status:
    size = 0
    while (part := await call.receive()) is not None:
        size += len(message("StreamingInputCallRequest").FromString(part).payload.body)
    await call.send(message("StreamingInputCallResponse")(aggregated_payload_size=size).SerializeToString())
    return OK


async def _output(call: ServerCall) -> Status:
    return await _reply(call, await receive_one(call))


async def _full_duplex(call: ServerCall) -> Status:
    while (part := await call.receive()) is not None:
        status = await _reply(call, part)
        if status.code:
            return status
    return OK


async def _reply(call: ServerCall, part: bytes) -> Status:
    """The replies to one request of a stream, or the status that it demands."""
    request = message("StreamingOutputCallRequest").FromString(part)
    if request.response_status.code:
        return _status(request)
    for wanted in request.response_parameters:
        await asyncio.sleep(wanted.interval_us / 1e6)
        reply = message("StreamingOutputCallResponse")(payload=_payload(wanted.size))
        await call.send(reply.SerializeToString())
    return OK


def _payload(size: int) -> Class:
    return message("Payload")(body=bytes(size))


def _status(request: Class) -> Status:
    return Status(code=request.response_status.code, message=request.response_status.message)


METHODS: dict[str, Callable[[ServerCall], Awaitable[Status]]] = {
    f"{SERVICE}EmptyCall": _empty,
    f"{SERVICE}UnaryCall": _unary,
    f"{SERVICE}StreamingInputCall": _input,
    f"{SERVICE}StreamingOutputCall": _output,
    f"{SERVICE}FullDuplexCall": _full_duplex,
}
