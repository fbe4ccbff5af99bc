"""Slow, greedy and numerous clients; and the end of the server."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import gc
import time
from pathlib import Path

import grpc
import grpc.aio
import hyperframe.frame
import pytest
from tests.harness.limits import REAL_TIMEOUT

from talos.rpc.http2.server_call import ServerCall
from talos.rpc.port import call as http2_call
from talos.rpc.port import connection as http2
from talos.rpc.port import listener, open_connections, refusals
from talos.rpc.port.limits import Limits
from talos.rpc.protocol import OK, Status

from .raw_clients import (
    Session,
    answer,
    client_context,
    expect_refusal,
    http2_client,
    raw,
    still_serves,
    tls,
    until_refused,
    wait_until_closed,
)
from .world import READ, RUN, VERSION, Node, Pki, call, client, node

pytestmark = pytest.mark.asyncio


async def endless(call: ServerCall) -> Status:
    await call.send_headers(())
    await asyncio.Event().wait()
    return OK


class TestLimits:
    async def test_a_slow_handshake_times_out(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer, limits=Limits(handshake_timeout=0.3)) as a:
            reader, writer = await asyncio.open_connection(a.host, a.port)
            writer.write(b"\x16\x03\x01")
            await wait_until_closed(reader)
            writer.close()
            assert await until_refused(a) == ["the handshake took too long"]
            await still_serves(a, pki)

    async def test_silence_after_the_handshake_times_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http2, "PREFACE_TIMEOUT", 0.3)
        pki = Pki()
        async with node(tmp_path, pki, answer) as a:
            async with tls(a, client_context(pki, pki.client("os:admin"))) as (reader, _):
                await wait_until_closed(reader)
            assert await until_refused(a) == ["no HTTP/2 after the handshake"]

    async def test_silence_before_the_handshake_times_out(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer, limits=Limits(hello_timeout=0.3)) as a:
            reader, writer = await asyncio.open_connection(a.host, a.port)
            await wait_until_closed(reader)
            writer.close()
            assert await until_refused(a) == ["it sent nothing"]

    @pytest.mark.parametrize("data", [b"", b"\x16\x03\x01"])
    async def test_pending_connections_make_room(self, tmp_path: Path, data: bytes, pki: Pki) -> None:
        """Neither silence nor a handshake that is never finished keeps others out."""
        limits = Limits(handshakes=3, silent=3, handshake_timeout=30, hello_timeout=30)
        async with node(tmp_path, pki, answer, limits=limits) as a:
            pending = [await asyncio.open_connection(a.host, a.port) for _ in range(10)]
            for _, writer in pending:
                writer.write(data)
            await still_serves(a, pki)
            assert set(await until_refused(a, 7)) == {"made room for other connections"}
            for reader, _ in pending[:7]:
                await wait_until_closed(reader)
            for _, writer in pending:
                writer.transport.abort()

    async def test_connections_are_limited(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, endless, limits=Limits(connections=2)) as a,
            http2_client(a, pki) as first,
            http2_client(a, pki) as second,
        ):
            for session in (first, second):
                await session.begin_endless()
            await expect_refusal(a, pki, pki.client("os:admin"))
            assert await until_refused(a) == ["2 connections are open"]

    async def test_an_unused_connection_makes_room(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki
    ) -> None:
        monkeypatch.setattr(open_connections, "RECENTLY_USED", 0.0)
        async with (
            node(tmp_path, pki, answer, limits=Limits(connections=2)) as a,
            http2_client(a, pki) as first,
            http2_client(a, pki) as second,
        ):
            for session in (first, second):
                assert (await session.request({}))["grpc-status"] == "0"
            await still_serves(a, pki)
            await wait_until_closed(first.reader)
            assert (await second.request({}))["grpc-status"] == "0"

    async def test_connections_of_one_certificate_are_limited(self, tmp_path: Path, pki: Pki) -> None:
        certificate = pki.client("os:admin")
        context = client_context(pki, certificate)
        limits = Limits(connections_per_client=1)
        async with node(tmp_path, pki, endless, limits=limits) as a, tls(a, context) as (reader, writer):
            await Session(reader, writer).begin_endless()
            await expect_refusal(a, pki, certificate)
            assert await until_refused(a) == ["1 connections of this client are open"]
            async with http2_client(a, pki) as other:
                await other.begin_endless()

    async def test_calls_are_shared_by_certificates(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, endless, limits=Limits(calls=10)) as a,
            http2_client(a, pki) as greedy,
            http2_client(a, pki) as other,
        ):
            for _ in range(5):
                await greedy.begin_endless()
            reply = await greedy.request({})
            assert reply["grpc-status"] == "8"
            assert reply["grpc-message"] == "too many calls at a time, try again"
            for _ in range(2):
                await other.begin_endless()

    async def test_memory_for_requests_is_shared_by_certificates(self, tmp_path: Path, pki: Pki) -> None:
        """It is counted as the bytes arrive, whatever length they announce."""
        async with (
            node(tmp_path, pki, answer, limits=Limits(request_memory=200_000)) as a,
            http2_client(a, pki) as greedy,
            http2_client(a, pki) as other,
        ):
            assert (await greedy.request({}))["grpc-status"] == "0"
            # A half is what one client may have of all.
            for size in (60_000, 40_000, 10_000):
                stream = greedy.begin({})
                for _ in range(size // 10_000):
                    greedy.h2.send_data(stream, b"\0\0\3\0\0".ljust(10_000, b"x"))
                if size == 10_000:
                    assert (await greedy.answer(stream))["grpc-status"] == "8"
            assert (await other.request({}, b"\0\0\0\0\x64" + bytes(100)))["grpc-status"] == "0"

    async def test_a_request_that_does_not_arrive_ends_the_call(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki
    ) -> None:
        monkeypatch.setattr(http2_call, "ARRIVAL", 0.3)
        async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
            for body in (b"", b"\0\0\0\1\0abc"):
                stream = session.begin({})
                session.h2.send_data(stream, body)
                reply = await session.answer(stream)
                assert reply["grpc-status"] == "4"
                assert reply["grpc-message"] == "the request did not arrive in time"

    async def test_a_connection_without_calls_is_closed(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer, limits=Limits(idle_timeout=0.3)) as a:
            async with http2_client(a, pki) as session:
                assert (await session.request({}))["grpc-status"] == "0"
                await wait_until_closed(session.reader)
            async with tls(a, client_context(pki, pki.client("os:admin"))) as (reader, _):
                await wait_until_closed(reader)

    async def test_a_flood_does_not_fill_the_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(refusals, "BURST", 3)
        monkeypatch.setattr(refusals, "LOG_INTERVAL", 3600.0)
        pki = Pki()
        async with node(tmp_path, pki, answer) as a:
            for _ in range(10):
                await raw(a, b"GET / HTTP/1.1\r\n\r\n")
            assert len(a.refusals()) == 3
            monkeypatch.setattr(refusals, "LOG_INTERVAL", 0.0)  # it is over
            await raw(a, b"GET / HTTP/1.1\r\n\r\n")
            assert len(a.refusals()) == 4
            assert [r["count"] for r in a.records if r["msg"] == "refused more connections"] == [7]

    async def test_a_client_that_only_connects_is_not_worth_a_warning(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            _, writer = await asyncio.open_connection(a.host, a.port)
            writer.close()
            await still_serves(a, pki)
            assert not a.refusals()

    async def test_a_client_that_stops_reading_costs_little(self, tmp_path: Path, pki: Pki) -> None:
        sent = 0

        async def flood(call: ServerCall) -> Status:
            nonlocal sent
            await call.receive()
            while True:
                await call.send(bytes(65536))
                sent += 65536

        async def still_answers(a: Node) -> None:
            async with client(a, pki, pki.client("os:reader")) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(channel, READ, timeout=10)
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

        async with node(tmp_path, pki, flood) as a, http2_client(a, pki) as session:
            session.h2.update_settings({4: 2**31 - 1})  # pyright: ignore[reportArgumentType]
            session.h2.increment_flow_control_window(2**31 - 1 - 65535)
            stream = session.begin({}, READ)
            session.h2.send_data(stream, b"\0\0\0\0\0", end_stream=True)
            session.flush()
            session.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
            before = -1
            while sent != before:  # until nothing moves any more
                before = sent
                await asyncio.sleep(0.3)
            # What the kernel's buffers and those of three hops hold.
            assert 0 < sent < 12 * 1024 * 1024
            await still_answers(a)

    async def test_a_slow_handler_does_not_make_the_server_read(self, tmp_path: Path, pki: Pki) -> None:
        async def lazy(call: ServerCall) -> Status:
            if call.method == VERSION:
                return await answer(call)
            await call.receive()
            await asyncio.Event().wait()
            return OK

        written = 0
        async with node(tmp_path, pki, lazy) as a, client(a, pki, pki.client("os:admin")) as channel:
            rpc = channel.stream_stream(RUN)()

            async def flood() -> None:
                nonlocal written
                while True:
                    await rpc.write(bytes(256 * 1024))
                    written += 256 * 1024

            task = asyncio.create_task(flood())
            before = -1
            while written != before:
                before = written
                await asyncio.sleep(0.3)
            assert written < 12 * 1024 * 1024
            # Others on the same connection are not held up.
            assert await call(channel)
            task.cancel()
            rpc.cancel()

    async def test_a_flood_of_pings_is_ended(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            async with http2_client(a, pki) as session:
                session.writer.write(hyperframe.frame.PingFrame(0, b"12345678").serialize() * 40_000)
                await wait_until_closed(session.reader)
            assert "control frames a second" in (await until_refused(a))[0]
            await still_serves(a, pki)

    async def test_rapid_resets_end_the_connection(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            async with http2_client(a, pki) as session:
                for number in range(1000):
                    session.h2.reset_stream(session.begin({}, READ))
                    if number == 150:
                        session.flush()
                        assert (await session.request({}))["grpc-status"] == "0"
                session.flush()
                await wait_until_closed(session.reader)
            assert "cancelled calls a second" in (await until_refused(a))[0]
            await still_serves(a, pki)

    async def test_headers_are_limited_while_they_arrive(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer, limits=Limits(header_size=20_000)) as a:
            async with http2_client(a, pki) as session:
                begin = hyperframe.frame.HeadersFrame(1, bytes(10_000)).serialize()
                session.writer.write(begin)
                more = hyperframe.frame.ContinuationFrame(1, bytes(10_001)).serialize()
                # Its first bytes are enough.
                session.writer.write(more[:9])
                await wait_until_closed(session.reader)
            assert "headers of more than 20000 bytes" in (await until_refused(a))[0]

    async def test_memory_is_given_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki
    ) -> None:
        trims: list[float] = []
        monkeypatch.setattr(listener, "SWEEP", 0.1)
        monkeypatch.setattr(listener, "QUIET_TRIM_AFTER", 1)
        monkeypatch.setattr(listener, "trim_heap", lambda: trims.append(time.monotonic()))
        async with node(tmp_path, pki, answer) as a:
            await still_serves(a, pki)
            while not trims:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
            assert not [one for one in gc.get_objects() if isinstance(one, http2.PortConnection)]


class TestStop:
    async def test_open_calls_finish_within_the_grace(self, tmp_path: Path, pki: Pki) -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow(call: ServerCall) -> Status:
            begun.set()
            await go.wait()
            return await answer(call)

        async with node(tmp_path, pki, slow) as a, client(a, pki, pki.client("os:admin")) as channel:
            rpc = channel.unary_unary(VERSION)(b"")
            await begun.wait()
            stopping = asyncio.create_task(a.api.stop(2 * REAL_TIMEOUT))
            await asyncio.sleep(0.1)
            assert not stopping.done()
            with pytest.raises(OSError):  # noqa: PT011
                await asyncio.open_connection(a.host, a.port)
            go.set()
            assert await rpc
            await stopping

    async def test_calls_that_do_not_finish_are_ended(self, tmp_path: Path, pki: Pki) -> None:
        begun = asyncio.Event()

        async def endless(call: ServerCall) -> Status:
            begun.set()
            await asyncio.Event().wait()
            return OK

        async with node(tmp_path, pki, endless) as a, client(a, pki, pki.client("os:admin")) as channel:
            rpc = channel.unary_stream(READ)(b"")
            await begun.wait()
            await a.api.stop(0.3)
            assert await rpc.code() is grpc.StatusCode.UNAVAILABLE

    async def test_both_families(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer, host="") as a:
            for host in ("127.0.0.1", "::1"):
                there = Node(a.api, a.port, host, a.lines)
                await still_serves(there, pki)
