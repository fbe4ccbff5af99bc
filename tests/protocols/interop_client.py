"""The cases of gRPC's interop suite for the project's client; AssertionError for a failure."""

from collections.abc import Awaitable, Callable

from talos.api.rpc import Code
from talos.rpc.http2.client import Channel
from talos.rpc.http2.client_call import ClientCall
from talos.rpc.protocol import Metadata, Status

from .messages import Class, message
from .service import INITIAL, SERVICE, TRAILING

REQUEST_SIZES = (27182, 8, 1828, 45904)
REPLY_SIZES = (31415, 9, 2653, 58979)
LARGE_REQUEST, LARGE_REPLY = 271828, 314159
SPECIAL_TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
TIMEOUT = 30.0
"""Seconds of a call, on a busy machine, too."""


async def _begin(channel: Channel, method: str, metadata: Metadata = ()) -> ClientCall:
    return await channel.begin(SERVICE + method, metadata, TIMEOUT)


async def _receive(call: ClientCall, name: str) -> Class:
    reply = await call.receive()
    assert reply is not None, call.status
    return message(name).FromString(reply)


async def _check(call: ClientCall, code: Code = Code.OK, text: str = "") -> Status:
    """Take what is left of a call, which has to be its status only."""
    assert await call.receive() is None
    status = await call.end()
    assert (Code(status.code), status.message) == (code, text)
    return status


def _payload(size: int) -> Class:
    return message("Payload")(body=bytes(size))


def _output(*sizes: int, payload: int = 0) -> bytes:
    parameters = [message("ResponseParameters")(size=size) for size in sizes]
    request = message("StreamingOutputCallRequest")(response_parameters=parameters, payload=_payload(payload))
    return request.SerializeToString()


async def empty_unary(channel: Channel) -> None:
    call = await _begin(channel, "EmptyCall")
    await call.send(b"", last=True)
    assert await call.receive() == b""
    await _check(call)


async def large_unary(channel: Channel) -> None:
    call = await _begin(channel, "UnaryCall")
    request = message("SimpleRequest")(response_size=LARGE_REPLY, payload=_payload(LARGE_REQUEST))
    await call.send(request.SerializeToString(), last=True)
    assert len((await _receive(call, "SimpleResponse")).payload.body) == LARGE_REPLY
    await _check(call)


async def client_streaming(channel: Channel) -> None:
    call = await _begin(channel, "StreamingInputCall")
    for size in REQUEST_SIZES:
        await call.send(message("StreamingInputCallRequest")(payload=_payload(size)).SerializeToString())
    call.send_end()
    reply = await _receive(call, "StreamingInputCallResponse")
    assert reply.aggregated_payload_size == sum(REQUEST_SIZES)
    await _check(call)


async def server_streaming(channel: Channel) -> None:
    call = await _begin(channel, "StreamingOutputCall")
    await call.send(_output(*REPLY_SIZES), last=True)
    for size in REPLY_SIZES:
        assert len((await _receive(call, "StreamingOutputCallResponse")).payload.body) == size
    await _check(call)


async def ping_pong(channel: Channel) -> None:
    call = await _begin(channel, "FullDuplexCall")
    for request, reply in zip(REQUEST_SIZES, REPLY_SIZES, strict=True):
        await call.send(_output(reply, payload=request))
        assert len((await _receive(call, "StreamingOutputCallResponse")).payload.body) == reply
    call.send_end()
    await _check(call)


async def empty_stream(channel: Channel) -> None:
    call = await _begin(channel, "FullDuplexCall")
    call.send_end()
    await _check(call)


async def timeout_on_sleeping_server(channel: Channel) -> None:
    call = await channel.begin(f"{SERVICE}FullDuplexCall", (), 0.001)
    assert await call.receive() is None
    status = await call.end()
    assert status.code == Code.DEADLINE_EXCEEDED, status


async def cancel_after_begin(channel: Channel) -> None:
    call = await _begin(channel, "StreamingInputCall")
    call.cancel()
    assert (await call.end()).code == Code.CANCELLED
    await empty_unary(channel)  # the connection is as it was


async def cancel_after_first_response(channel: Channel) -> None:
    call = await _begin(channel, "FullDuplexCall")
    await call.send(_output(REPLY_SIZES[0], payload=REQUEST_SIZES[0]))
    await _receive(call, "StreamingOutputCallResponse")
    call.cancel()
    assert (await call.end()).code == Code.CANCELLED
    await empty_unary(channel)


async def custom_metadata(channel: Channel) -> None:
    sent: Metadata = ((INITIAL, "test_initial_metadata_value"), (TRAILING, b"\x0a\x0b\x0a\x0b\x0a\x0b"))
    unary = message("SimpleRequest")(response_size=1, payload=_payload(1)).SerializeToString()
    for method, request in (("UnaryCall", unary), ("FullDuplexCall", _output(1, payload=1))):
        call = await _begin(channel, method, metadata=sent)
        await call.send(request, last=True)
        assert sent[0] in await call.initial_metadata()
        assert await call.receive() is not None
        assert sent[1] in (await _check(call)).trailers


async def status_code_and_message(channel: Channel) -> None:
    for method, name in (("UnaryCall", "SimpleRequest"), ("FullDuplexCall", "StreamingOutputCallRequest")):
        await _request_status(channel, method, name, "test status message")


async def special_status_message(channel: Channel) -> None:
    await _request_status(channel, "UnaryCall", "SimpleRequest", SPECIAL_TEXT)


async def _request_status(channel: Channel, method: str, name: str, text: str) -> None:
    call = await _begin(channel, method)
    status = message("EchoStatus")(code=Code.UNKNOWN, message=text)
    await call.send(message(name)(response_status=status).SerializeToString(), last=True)
    await _check(call, Code.UNKNOWN, text)


async def unimplemented_method(channel: Channel) -> None:
    await _expect_unimplemented(await _begin(channel, "UnimplementedCall"))


async def unimplemented_service(channel: Channel) -> None:
    path = "/grpc.testing.UnimplementedService/UnimplementedCall"
    await _expect_unimplemented(await channel.begin(path, (), TIMEOUT))


async def _expect_unimplemented(call: ClientCall) -> None:
    await call.send(b"", last=True)
    assert await call.receive() is None
    assert (await call.end()).code == Code.UNIMPLEMENTED


CASES: dict[str, Callable[[Channel], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        cancel_after_begin,
        cancel_after_first_response,
        client_streaming,
        custom_metadata,
        empty_stream,
        empty_unary,
        large_unary,
        ping_pong,
        server_streaming,
        special_status_message,
        status_code_and_message,
        timeout_on_sleeping_server,
        unimplemented_method,
        unimplemented_service,
    )
}
