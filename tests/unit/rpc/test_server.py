"""Calls of all arities through a real gRPC server on a unix socket."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import trio
import trio.lowlevel
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from talos.api.google.rpc import status_pb2
from talos.api.rpc import Call, Code, Handler, RpcError, Send, Service
from talos.process.run import Daemon
from talos.rpc.server import serve
from talos.system.errors import UserError

from .echo import DESCRIPTOR, RawChannel, echo_server, packed, run_daemon, unpacked


async def echo(request: BytesValue, _call: Call) -> BytesValue:
    await trio.lowlevel.checkpoint()
    return BytesValue(value=request.value.upper())


async def count(request: BytesValue, _call: Call, send: Send) -> None:
    for number in range(int(request.value)):
        await send(BytesValue(value=b"%d" % number))


async def join(requests: AsyncIterator[BytesValue], _call: Call) -> BytesValue:
    return BytesValue(value=b"".join([request.value async for request in requests]))


async def echo_each(requests: AsyncIterator[BytesValue], _call: Call, send: Send) -> None:
    async for request in requests:
        await send(BytesValue(value=request.value.upper()))


async def failing(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def test_four_arities(tmp_path: Path) -> None:
    async def client(channel: RawChannel) -> None:
        async def messages() -> AsyncIterator[bytes]:
            for word in (b"a", b"b", b"c"):
                yield packed(word)
                await asyncio.sleep(0)

        assert unpacked(await channel.unary_unary("/test.Echo/Unary")(packed(b"hi"))) == b"HI"
        stream = channel.unary_stream("/test.Echo/ServerStream")(packed(b"100"))
        assert [int(unpacked(m)) async for m in stream] == list(range(100))
        assert unpacked(await channel.stream_unary("/test.Echo/ClientStream")(messages())) == b"abc"
        both = channel.stream_stream("/test.Echo/Both")(messages())
        assert [unpacked(m) async for m in both] == [b"A", b"B", b"C"]

    async def main(daemon: Daemon) -> None:
        handlers: dict[str, Handler] = {
            "Unary": echo,
            "ServerStream": count,
            "ClientStream": join,
            "Both": echo_each,
        }
        async with echo_server(daemon, tmp_path / "s", handlers) as channel:
            await daemon.bridge.call(client, channel)

    run_daemon(main)


def test_health_is_answered(tmp_path: Path) -> None:
    async def client(channel: RawChannel) -> None:
        assert await channel.unary_unary("/grpc.health.v1.Health/Check")(b"") == b"\x08\x01"

    async def main(daemon: Daemon) -> None:
        async with echo_server(daemon, tmp_path / "s", {}) as channel:
            await daemon.bridge.call(client, channel)

    run_daemon(main)


def test_socket_is_for_owner_and_group_only(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        before = os.umask(0o022)
        os.umask(before)
        async with echo_server(daemon, tmp_path / "s", {"Unary": echo}):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660
        assert os.umask(before) == before

    run_daemon(main)


def test_metadata_peer_and_deadline_reach_the_handler(tmp_path: Path) -> None:
    seen: list[Call] = []

    async def note(_request: BytesValue, call: Call) -> BytesValue:
        seen.append(call)
        # gRPC's client rounds what is left of 90 s up to the next tenth of a second.
        assert 30 < call.deadline - trio.current_time() <= 91 or call.deadline == float("inf")
        return BytesValue()

    async def client(channel: RawChannel) -> None:
        method = channel.unary_unary("/test.Echo/Unary")
        metadata = (("talos-role", "os:reader"), ("talos-role", "os:admin"), ("x-bin", b"\0"))
        await method(b"", metadata=metadata, timeout=90)
        await method(b"")

    async def main(daemon: Daemon) -> None:
        async with echo_server(daemon, tmp_path / "s", {"Unary": note}) as channel:
            await daemon.bridge.call(client, channel)

    run_daemon(main)
    assert seen[0].roles == {"os:reader", "os:admin"}
    assert seen[0].metadata["talos-role"] == ("os:reader", "os:admin")
    assert seen[0].method == "/test.Echo/Unary"
    assert seen[0].peer.startswith("unix:")
    assert seen[1].deadline == float("inf")


@pytest.mark.parametrize("arity", ["Unary", "ServerStream", "Both"])
def test_cancel_by_the_client_stops_the_handler(tmp_path: Path, arity: str) -> None:
    async def main(daemon: Daemon) -> None:
        started, stopped = trio.Event(), trio.Event()

        async def hang(*_args: object) -> BytesValue:
            try:
                started.set()
                await trio.sleep_forever()
            finally:
                stopped.set()

        async def start(channel: RawChannel) -> Any:
            if arity == "Unary":
                return channel.unary_unary("/test.Echo/Unary")(b"")
            if arity == "ServerStream":
                return channel.unary_stream("/test.Echo/ServerStream")(b"")
            return channel.stream_stream("/test.Echo/Both")()

        async with echo_server(daemon, tmp_path / "s", {arity: hang}) as channel:
            call = await daemon.bridge.call(start, channel)
            await started.wait()
            call.cancel()
            await stopped.wait()

    run_daemon(main)


def test_deadline_stops_the_handler(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        started, stopped = trio.Event(), trio.Event()

        async def hang(_request: BytesValue, _call: Call) -> BytesValue:
            try:
                started.set()
                await trio.sleep_forever()
            finally:
                stopped.set()

        async def client(channel: RawChannel) -> None:
            error = await failing(channel.unary_unary("/test.Echo/Unary")(b"", timeout=0.2))
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED

        async with echo_server(daemon, tmp_path / "s", {"Unary": hang}) as channel:
            while not started.is_set():  # a call that a busy machine is late with does not come that far
                await daemon.bridge.call(client, channel)
            await stopped.wait()

    run_daemon(main)


def test_a_client_that_stops_reading_stops_the_writer(tmp_path: Path) -> None:
    chunk = BytesValue(value=b"x" * 65536)

    async def main(daemon: Daemon) -> None:
        sent = 0

        async def flood(_request: BytesValue, _call: Call, send: Send) -> None:
            nonlocal sent
            while True:
                await send(chunk)
                sent += 1

        async def read_one(channel: RawChannel) -> Any:
            call = channel.unary_stream("/test.Echo/ServerStream")(b"")
            await call.read()
            return call

        async with echo_server(daemon, tmp_path / "s", {"ServerStream": flood}) as channel:
            call = await daemon.bridge.call(read_one, channel)
            before = -1
            while before != sent:  # until it stands still
                before = sent
                await trio.sleep(0.2)
            # what the windows and the sockets hold
            assert sent < 20
            call.cancel()

    run_daemon(main)


def test_a_handler_that_stops_reading_stops_the_client(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        taken = 0

        async def ignore(_requests: AsyncIterator[BytesValue], _call: Call) -> BytesValue:
            await trio.sleep_forever()
            raise AssertionError

        async def flood() -> AsyncIterator[bytes]:
            nonlocal taken
            while True:
                taken += 1
                yield packed(b"x" * 65536)

        async def start(channel: RawChannel) -> Any:
            return channel.stream_unary("/test.Echo/ClientStream")(flood())

        async with echo_server(daemon, tmp_path / "s", {"ClientStream": ignore}) as channel:
            call = await daemon.bridge.call(start, channel)
            before = -1
            while before != taken:
                before = taken
                await trio.sleep(0.2)
            assert taken < 100
            call.cancel()

    run_daemon(main)


def test_message_limit(tmp_path: Path) -> None:
    async def size(request: BytesValue, _call: Call) -> BytesValue:
        return BytesValue(value=b"%d" % len(request.value))

    async def client(channel: RawChannel) -> None:
        method = channel.unary_unary("/test.Echo/Unary")
        assert unpacked(await method(packed(b"x" * (31 << 20)))) == b"%d" % (31 << 20)
        error = await failing(method(packed(b"x" * (33 << 20))))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert unpacked(await method(packed(b"ok"))) == b"2"

    async def main(daemon: Daemon) -> None:
        async with echo_server(daemon, tmp_path / "s", {"Unary": size}) as channel:
            await daemon.bridge.call(client, channel)

    run_daemon(main)


def status_of(error: Exception, tmp_path: Path, lines: list[str] | None = None) -> grpc.aio.AioRpcError:
    """How the error of a handler reaches the client."""
    caught: list[grpc.aio.AioRpcError] = []

    async def fail(_request: BytesValue, _call: Call) -> BytesValue:
        await trio.lowlevel.checkpoint()
        raise error

    async def client(channel: RawChannel) -> None:
        caught.append(await failing(channel.unary_unary("/test.Echo/Unary")(b"")))

    async def main(daemon: Daemon) -> None:
        async with echo_server(daemon, tmp_path / "s", {"Unary": fail}) as channel:
            await daemon.bridge.call(client, channel)

    run_daemon(main, lines)
    return caught[0]


def test_user_error_is_invalid_argument(tmp_path: Path) -> None:
    error = status_of(UserError("no such disk", where="machine.install.disk", hint="try sda"), tmp_path)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "machine.install.disk: no such disk (try sda)"


def test_error_in_a_nursery_of_the_handler_keeps_its_status(tmp_path: Path) -> None:
    error = status_of(ExceptionGroup("", [RpcError(Code.NOT_FOUND, "gone")]), tmp_path)
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "gone")


def test_details_travel_in_the_trailers(tmp_path: Path) -> None:
    error = status_of(RpcError(Code.ABORTED, "busy", [StringValue(value="who")]), tmp_path)
    packed_status = dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert isinstance(packed_status, bytes)
    status = status_pb2.Status.FromString(packed_status)
    detail = StringValue()
    assert (status.code, status.message) == (10, "busy")
    assert status.details[0].Unpack(detail)
    assert detail.value == "who"


@pytest.mark.parametrize("defect", [ZeroDivisionError("secret"), StopIteration()])
def test_defect_is_internal_and_named_in_the_log(tmp_path: Path, defect: Exception) -> None:
    lines: list[str] = []
    error = status_of(defect, tmp_path, lines)
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in (error.details() or "")
    entry = next(line for line in map(json.loads, lines) if "id" in line)
    assert entry["id"] in (error.details() or "")
    assert "Traceback" in entry["traceback"]


def test_wrong_bytes_and_wrong_replies(tmp_path: Path) -> None:
    async def wrong(_request: BytesValue, _call: Call) -> Message:
        return StringValue()

    async def client(channel: RawChannel) -> None:
        error = await failing(channel.unary_unary("/test.Echo/Unary")(b"\xff\xff"))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        error = await failing(channel.unary_unary("/test.Echo/Unary")(b""))
        assert error.code() is grpc.StatusCode.INTERNAL
        error = await failing(channel.unary_unary("/test.Echo/Missing")(b""))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED

    async def main(daemon: Daemon) -> None:
        async with echo_server(daemon, tmp_path / "s", {"Unary": wrong}) as channel:
            await daemon.bridge.call(client, channel)

    run_daemon(main)


def test_error_after_replies_ends_the_stream_with_it(tmp_path: Path) -> None:
    async def some(_request: BytesValue, _call: Call, send: Send) -> None:
        for _ in range(40):
            await send(BytesValue())
        raise RpcError(Code.DATA_LOSS, "torn")

    async def client(channel: RawChannel) -> None:
        call = channel.unary_stream("/test.Echo/ServerStream")(b"")
        received: list[bytes] = []

        async def read_all() -> None:
            async for reply in call:
                received.append(reply)  # noqa: PERF401 - those before the error count

        error = await failing(read_all())
        assert len(received) == 40
        assert error.code() is grpc.StatusCode.DATA_LOSS

    async def main(daemon: Daemon) -> None:
        async with echo_server(daemon, tmp_path / "s", {"ServerStream": some}) as channel:
            await daemon.bridge.call(client, channel)

    run_daemon(main)


def test_stop_lets_open_calls_finish(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        started, go = trio.Event(), trio.Event()
        replies: list[bytes] = []

        async def slow(_request: BytesValue, _call: Call) -> BytesValue:
            started.set()
            await go.wait()
            return BytesValue(value=b"done")

        async def client() -> None:
            channel: RawChannel
            async with grpc.aio.insecure_channel(f"unix:{tmp_path}/s") as channel:
                replies.append(unpacked(await channel.unary_unary("/test.Echo/Unary")(b"")))

        async with trio.open_nursery() as nursery:
            async with serve(daemon, [Service(DESCRIPTOR, {"Unary": slow})], tmp_path / "s", grace=10):
                nursery.start_soon(daemon.bridge.call, client)
                await started.wait()
                nursery.start_soon(_after, 0.2, go)
                # from here on the server is stopping, and the call still open
            assert go.is_set()
        assert replies == [b"done"]

    run_daemon(main)


async def _after(seconds: float, event: trio.Event) -> None:
    await trio.sleep(seconds)
    event.set()


def test_stop_ends_open_streams_after_the_grace(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        stopped = trio.Event()
        codes: list[grpc.StatusCode] = []

        async def forever(_request: BytesValue, _call: Call, send: Send) -> None:
            try:
                await send(BytesValue())
                await trio.sleep_forever()
            finally:
                stopped.set()

        async def open_stream(path: Path) -> Any:
            channel: RawChannel = grpc.aio.insecure_channel(f"unix:{path}")
            call = channel.unary_stream("/test.Echo/ServerStream")(b"")
            await call.read()
            return channel, call

        async with trio.open_nursery() as nursery:
            async with echo_server(daemon, tmp_path / "s", {"ServerStream": forever}, grace=0.3):
                channel, call = await daemon.bridge.call(open_stream, tmp_path / "s")

                async def ending() -> None:
                    codes.append(await call.code())

                nursery.start_soon(daemon.bridge.call, ending)
                before = trio.current_time()
            assert stopped.is_set()
            assert 0.2 < trio.current_time() - before < 5
        assert codes[0] in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        await daemon.bridge.call(channel.close)

    run_daemon(main)


def test_cancelled_server_cancels_its_handlers(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        started, stopped = trio.Event(), trio.Event()
        codes: list[grpc.StatusCode] = []

        async def hang(_request: BytesValue, _call: Call) -> BytesValue:
            try:
                started.set()
                await trio.sleep_forever()
            finally:
                stopped.set()

        async def client() -> None:
            channel: RawChannel
            async with grpc.aio.insecure_channel(f"unix:{tmp_path}/s") as channel:
                codes.append((await failing(channel.unary_unary("/test.Echo/Unary")(b""))).code())

        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                async with echo_server(daemon, tmp_path / "s", {"Unary": hang}):
                    nursery.start_soon(daemon.bridge.call, client)
                    await started.wait()
                    scope.cancel()
                    await trio.sleep_forever()
            assert stopped.is_set()
        assert codes == [grpc.StatusCode.UNAVAILABLE]

    run_daemon(main)
