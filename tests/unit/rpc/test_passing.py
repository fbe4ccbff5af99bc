"""A server that passes calls on to another one as bytes, beside those that it answers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from talos.api.rpc import Call, Code, DuplexTransport, RpcError, Send, Service
from talos.process.run import Daemon
from talos.rpc.channel import open_channel
from talos.rpc.limits import SMALL_MESSAGE
from talos.rpc.passing import open_passage
from talos.rpc.server import serve

from .echo import DESCRIPTOR, run_daemon

UNARY, STREAM = "/test.Echo/Unary", "/test.Echo/ServerStream"


async def echo(request: BytesValue, call: Call) -> BytesValue:
    words = b" ".join(word.encode() for word in call.metadata.get("word", ()))
    return BytesValue(value=request.value + words)


async def count(request: BytesValue, _call: Call, send: Send) -> None:
    for number in range(int(request.value)):
        await send(BytesValue(value=b"%d" % number))
    raise RpcError(Code.ABORTED, "enough", [StringValue(value="detail")])


async def own(_request: BytesValue, _call: Call) -> BytesValue:
    return BytesValue(value=b"own")


@asynccontextmanager
async def passing(
    daemon: Daemon, folder: Path, own_methods: Service | None = None
) -> AsyncGenerator[DuplexTransport]:
    """A channel to a server that passes what it does not answer itself on to ``folder/behind``."""
    own_services = [own_methods] if own_methods else []
    async with (
        open_passage(daemon, folder / "behind") as passage,
        serve(daemon, own_services, folder / "front", others={"/test.Echo": passage}),
        open_channel(daemon, folder / "front") as transport,
    ):
        yield transport


def test_calls_of_one_request_are_passed_on(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        behind = Service(DESCRIPTOR, {"Unary": echo, "ServerStream": count})
        async with serve(daemon, [behind], tmp_path / "behind"), passing(daemon, tmp_path) as transport:
            large = BytesValue(value=b"x" * 4 * SMALL_MESSAGE)
            reply = await transport.unary(UNARY, large, BytesValue, metadata={"word": ["b", "c"]})
            assert reply.value == large.value + b"b c"
            async with transport.stream(STREAM, BytesValue(value=b"500"), BytesValue) as replies:
                received = [int((await anext(replies)).value) for _ in range(500)]
                assert received == list(range(500))
                with pytest.raises(RpcError) as caught:
                    await anext(replies)
            assert (caught.value.code, caught.value.message) == (Code.ABORTED, "enough")
            assert caught.value.details == (StringValue(value="detail"),)

    run_daemon(main)


def test_a_method_of_its_own_is_answered_by_the_server_itself(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        behind = Service(DESCRIPTOR, {"Unary": echo, "ServerStream": count})
        front = Service(DESCRIPTOR, {"Unary": own})
        async with (
            serve(daemon, [behind], tmp_path / "behind"),
            passing(daemon, tmp_path, front) as transport,
        ):
            assert (await transport.unary(UNARY, BytesValue(value=b"a"), BytesValue)).value == b"own"
            for path in ("test.Echo/Unary", "//test.Echo/Unary", "/test.Other/Unary", "/test.Echo/Unary/"):
                with pytest.raises(RpcError) as caught:
                    await transport.unary(path, BytesValue(value=b"a"), BytesValue)
                assert caught.value.code is Code.UNIMPLEMENTED, path

    run_daemon(main)


def test_a_server_that_comes_later_is_found(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        async with passing(daemon, tmp_path) as transport:
            with pytest.raises(RpcError) as caught:
                await transport.unary(UNARY, BytesValue(), BytesValue)
            assert caught.value.code is Code.UNAVAILABLE
            async with serve(daemon, [Service(DESCRIPTOR, {"Unary": echo})], tmp_path / "behind"):
                assert (await transport.unary(UNARY, BytesValue(value=b"a"), BytesValue)).value == b"a"

    run_daemon(main)


def test_a_call_that_is_cancelled_or_late_ends_behind_it_too(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        started, stopped = trio.Event(), trio.Event()

        async def hang(_request: BytesValue, call: Call) -> BytesValue:
            try:
                assert call.deadline < trio.current_time() + 60
                started.set()
                await trio.sleep_forever()
            finally:
                stopped.set()

        behind = Service(DESCRIPTOR, {"Unary": hang})
        async with serve(daemon, [behind], tmp_path / "behind"), passing(daemon, tmp_path) as transport:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call_late, transport)
                await started.wait()
                nursery.cancel_scope.cancel()
            await stopped.wait()

    async def call_late(transport: DuplexTransport) -> None:
        await transport.unary(UNARY, BytesValue(), BytesValue, timeout=60)

    run_daemon(main)
