"""The client's end: replies, errors, cancellation, reconnecting."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from talos.api.rpc import Call, Code, RpcError, Send, Service, Transport
from talos.process.run import Daemon
from talos.rpc.channel import open_channel
from talos.rpc.http2.server import LocalServer
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import Status
from talos.rpc.proxy.local import make_server
from talos.rpc.server import serve

from .echo import DESCRIPTOR, run_daemon


async def echo(request: BytesValue, call: Call) -> BytesValue:
    return BytesValue(value=request.value + b" ".join(s.encode() for s in call.metadata.get("word", ())))


async def count(request: BytesValue, _call: Call, send: Send) -> None:
    for number in range(int(request.value)):
        await send(BytesValue(value=b"%d" % number))
    raise RpcError(Code.ABORTED, "enough", [StringValue(value="detail")])


def test_unary_and_stream(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        handlers = {"Unary": echo, "ServerStream": count}
        async with (
            serve(daemon, [Service(DESCRIPTOR, handlers)], tmp_path / "s"),
            open_channel(daemon, tmp_path / "s") as transport,
        ):
            reply = await transport.unary(
                "/test.Echo/Unary", BytesValue(value=b"a "), BytesValue, metadata={"word": ["b", "c"]}
            )
            assert reply.value == b"a b c"
            received: list[int] = []
            with pytest.raises(RpcError) as caught:
                async with transport.stream(
                    "/test.Echo/ServerStream", BytesValue(value=b"50"), BytesValue
                ) as stream:
                    received.extend([int(message.value) async for message in stream])
            # a nursery between may wrap; here there is none
            assert caught.value.code is Code.ABORTED
            assert caught.value.details == (StringValue(value="detail"),)

    run_daemon(main)


def test_leaving_a_stream_cancels_it(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        stopped = trio.Event()

        async def forever(_request: BytesValue, _call: Call, send: Send) -> None:
            try:
                while True:
                    await send(BytesValue())
            finally:
                stopped.set()

        async with (
            serve(daemon, [Service(DESCRIPTOR, {"ServerStream": forever})], tmp_path / "s"),
            open_channel(daemon, tmp_path / "s") as transport,
        ):
            async with transport.stream("/test.Echo/ServerStream", BytesValue(), BytesValue) as stream:
                await anext(stream)
            await stopped.wait()

    run_daemon(main)


def test_cancelling_a_read_does_not_end_the_stream(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        go = trio.Event()

        async def late(_request: BytesValue, _call: Call, send: Send) -> None:
            await go.wait()
            await send(BytesValue(value=b"late"))

        async with (
            serve(daemon, [Service(DESCRIPTOR, {"ServerStream": late})], tmp_path / "s"),
            open_channel(daemon, tmp_path / "s") as transport,
            transport.stream("/test.Echo/ServerStream", BytesValue(), BytesValue) as stream,
        ):
            with trio.move_on_after(0.05) as scope:
                await anext(stream)
            assert scope.cancelled_caught
            go.set()
            assert (await anext(stream)).value == b"late"

    run_daemon(main)


def test_cancelling_a_call_cancels_the_handler(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        started, stopped = trio.Event(), trio.Event()

        async def hang(_request: BytesValue, _call: Call) -> BytesValue:
            try:
                started.set()
                await trio.sleep_forever()
            finally:
                stopped.set()

        async with (
            serve(daemon, [Service(DESCRIPTOR, {"Unary": hang})], tmp_path / "s"),
            open_channel(daemon, tmp_path / "s") as transport,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(transport.unary, "/test.Echo/Unary", BytesValue(), BytesValue)
                await started.wait()
                nursery.cancel_scope.cancel()
            await stopped.wait()

    run_daemon(main)


async def failure(transport: Transport) -> Code | None:
    """How a call ends, None when it succeeds."""
    try:
        await transport.unary("/test.Echo/Unary", BytesValue(), BytesValue)
    except RpcError as error:
        return error.code
    return None


def test_a_server_that_listens_later(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        async with open_channel(daemon, tmp_path / "s") as transport:
            for _ in range(2):
                with pytest.raises(RpcError) as caught:
                    await transport.unary("/test.Echo/Unary", BytesValue(), BytesValue)
                assert caught.value.code is Code.UNAVAILABLE
            for _ in range(2):  # the second time: a successor on the same socket
                async with serve(daemon, [Service(DESCRIPTOR, {"Unary": echo})], tmp_path / "s"):
                    while await failure(transport) is Code.UNAVAILABLE:  # noqa: ASYNC110
                        await trio.sleep(0.02)
                    assert await failure(transport) is None

    run_daemon(main)


def test_a_call_that_is_finished_has_ended_at_the_server(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        ended: list[bytes] = []

        async def collect(requests: AsyncIterator[BytesValue], _call: Call, send: Send) -> None:
            async for request in requests:
                await send(request)
                await send(request)
                await trio.sleep(0.05)
                ended.append(request.value)

        async with (
            serve(daemon, [Service(DESCRIPTOR, {"Both": collect})], tmp_path / "s"),
            open_channel(daemon, tmp_path / "s") as transport,
            transport.duplex("/test.Echo/Both", BytesValue) as call,
        ):
            await call.send(BytesValue(value=b"1"))
            assert (await call.receive()).value == b"1"
            await call.finish()
            assert ended == [b"1"]
            await call.finish()

    run_daemon(main)


def test_waiting_for_the_server(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        replies: list[bytes] = []
        answered = trio.Event()

        async with open_channel(daemon, tmp_path / "s", wait_for_ready=True) as transport:

            async def call() -> None:
                request = BytesValue(value=b"x")
                replies.append((await transport.unary("/test.Echo/Unary", request, BytesValue)).value)
                answered.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await trio.sleep(0.1)
                assert not replies
                async with serve(daemon, [Service(DESCRIPTOR, {"Unary": echo})], tmp_path / "s"):
                    await answered.wait()

    run_daemon(main)


def test_timeout(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        async def hang(_request: BytesValue, _call: Call) -> BytesValue:
            await trio.sleep_forever()
            raise AssertionError

        async with (
            serve(daemon, [Service(DESCRIPTOR, {"Unary": hang})], tmp_path / "s"),
            open_channel(daemon, tmp_path / "s") as transport,
        ):
            with pytest.raises(RpcError) as caught:
                await transport.unary("/test.Echo/Unary", BytesValue(), BytesValue, timeout=0.1)
            assert caught.value.code is Code.DEADLINE_EXCEEDED

    run_daemon(main)


def test_details_that_are_none_are_left_out(tmp_path: Path) -> None:
    """As of a server in the network, whose failure is a failure of the call and no other."""

    async def answer(call: ServerCall) -> Status:
        await call.receive()
        return Status(code=5, message="gone", trailers=(("grpc-status-details-bin", b"\xff\xff"),))

    async def main(daemon: Daemon) -> None:
        async def start() -> LocalServer:
            server = make_server(answer, daemon.log)
            await server.start(tmp_path / "s")
            return server

        server = await daemon.bridge.call(start)
        async with open_channel(daemon, tmp_path / "s") as transport:
            with pytest.raises(RpcError) as caught:
                await transport.unary("/test.Echo/Unary", BytesValue(), BytesValue)
        assert (caught.value.code, caught.value.message, caught.value.details) == (Code.NOT_FOUND, "gone", ())
        await daemon.bridge.call(server.stop, 0)

    run_daemon(main)
