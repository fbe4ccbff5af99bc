"""How calls end before their time."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import time
from pathlib import Path

import grpc
import pytest

from talos.api.methods import max_reply, max_request
from talos.api.rpc import Code
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import OK, Status

from .backends import two_nodes
from .raw_clients import http2_client
from .world import (
    APPLY,
    GET,
    READ,
    RECOVER,
    RUN,
    VERSION,
    Pki,
    call,
    client,
    node,
)

pytestmark = pytest.mark.asyncio


class TestEnds:
    @pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.2"])
    @pytest.mark.parametrize("method", [VERSION, READ, RUN])
    async def test_cancelling_reaches_the_backend(
        self, tmp_path: Path, method: str, target: str, pki: Pki
    ) -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def backend(call: ServerCall) -> Status:
            await call.receive()
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return OK

        async with (
            two_nodes(tmp_path, pki, backend, backend) as (a, _),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            rpc = channel.stream_stream(method)(iter([b""]), metadata=(("node", target),))
            await begun.wait()
            rpc.cancel()
            await cancelled.wait()

    async def test_a_lost_connection_cancels(self, tmp_path: Path, pki: Pki) -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def backend(call: ServerCall) -> Status:
            await call.receive()
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return OK

        async with node(tmp_path, pki, backend) as a:
            async with client(a, pki, pki.client("os:admin")) as channel:
                rpc = channel.unary_stream(READ)(b"")
                await begun.wait()
            assert rpc.cancelled()
            await cancelled.wait()

    @pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.2"])
    @pytest.mark.parametrize("method", [VERSION, READ, RUN])
    async def test_deadlines_reach_the_backend_and_end_the_call(
        self, tmp_path: Path, method: str, target: str, pki: Pki
    ) -> None:
        remaining: list[float] = []

        async def backend(call: ServerCall) -> Status:
            if (seconds := call.time_remaining()) is not None:
                remaining.append(seconds)
                await asyncio.Event().wait()
            return OK

        async with (
            two_nodes(tmp_path, pki, backend, backend) as (a, _),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            open_stream = channel.stream_stream(method)
            await open_stream(iter([b""]), metadata=(("node", target),)).code()  # connections take their time
            while not remaining:  # on a busy machine the deadline may be over before the call arrives
                begin = time.monotonic()
                rpc = open_stream(iter([b""]), metadata=(("node", target),), timeout=1.0)
                assert await rpc.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                assert 0.9 < time.monotonic() - begin < 5
            assert 0 < remaining[0] <= 1.1, "the client rounds up what it sends"

    async def test_requests_up_to_the_limit_of_their_method(self, tmp_path: Path, pki: Pki) -> None:
        async def count(call: ServerCall) -> Status:
            await call.send(b"%d" % len(await call.receive() or b""))
            return OK

        async with (
            node(tmp_path, pki, count) as a,
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            for method in (APPLY, VERSION, READ, RUN, RECOVER):
                limit = max_request(method)
                assert await channel.stream_stream(method)(iter([bytes(limit)])).read() == b"%d" % limit
                rpc = channel.stream_stream(method)(iter([bytes(limit + 1)]))
                assert await rpc.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert (
                    await rpc.details() == f"grpc: received message larger than max ({limit + 1} vs. {limit})"
                )
            # The same connection goes on.
            assert await call(channel, request=b"x") == b"1"

    @pytest.mark.parametrize("method", [VERSION, GET])
    async def test_replies_up_to_the_limit(self, tmp_path: Path, method: str, pki: Pki) -> None:
        async def large(call: ServerCall) -> Status:
            await call.receive()
            await call.send(bytes(max_reply(method)))
            return OK

        async with (
            node(tmp_path, pki, large) as a,
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            assert await call(channel, method) == bytes(max_reply(method))

    @pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.2"])
    async def test_a_stream_that_is_refused_early_ends_with_the_reason(
        self, tmp_path: Path, target: str, pki: Pki
    ) -> None:
        """Writing to a call that has ended must not hide how it ended."""

        async def refuse(call: ServerCall) -> Status:
            return Status(code=Code.UNIMPLEMENTED, message=f"no {call.method}")

        # Not grpc.aio's client, which has the very fault.
        async with (
            two_nodes(tmp_path, pki, refuse, refuse) as (a, _),
            http2_client(a, pki) as session,
        ):
            for number in range(100):
                method = (RUN, RECOVER)[number % 2]
                reply = await session.request({"node": target}, b"\0\0\0\0\1a" * 3, path=method)
                assert (reply["grpc-status"], reply["grpc-message"]) == ("12", f"no {method}")


class TestRefusals:
    async def test_a_caller_without_the_role_is_refused_before_its_request_arrives(
        self, tmp_path: Path, pki: Pki
    ) -> None:
        reached: list[str] = []

        async def backend(call: ServerCall) -> Status:
            reached.append(call.method)
            return OK

        async with (
            two_nodes(tmp_path, pki, backend, backend) as (a, _),
            http2_client(a, pki, "os:reader") as session,
        ):
            for method in (APPLY, READ, RUN, "/unknown.Service/Method"):
                for headers in ({}, {"node": "127.0.0.2"}, {"nodes": "192.0.2.1"}):
                    reply = await session.answer(session.begin(headers, method))
                    assert (reply["grpc-status"], reply["grpc-message"]) == ("7", "not authorized")
        assert not reached
