"""Who may connect to a server on a unix socket, and what its connections may hold."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.harness.limits import REAL_TIMEOUT

from talos.api.rpc import Code
from talos.rpc.http2 import server as server_module
from talos.rpc.http2.frames import END_HEADERS, PREFACE, Bounds, Kind, make_frame, make_reset
from talos.rpc.http2.headers import encode_headers
from talos.rpc.http2.local_limits import LocalLimits
from talos.rpc.http2.meter import FrameMeter
from talos.rpc.http2.server import LocalServer
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import Status
from talos.rpc.proxy.local import make_server, open_local
from talos.system.logging import Log

HELLO = PREFACE + make_frame(Kind.SETTINGS, 0, 0, b"")
CALLER, STRANGER = 4711, 4712
HEADERS = encode_headers(
    ((":method", "POST"), (":scheme", "http"), (":path", "/a.B/C"), (":authority", "x"), ("te", "trailers"))
)


async def echo(call: ServerCall) -> Status:
    while (message := await call.receive()) is not None:
        await call.send(message)
    return Status(code=0)


def serving(
    path: Path, limits: LocalLimits, test: Callable[[LocalServer, list[str]], Awaitable[None]]
) -> None:
    async def run() -> None:
        lines: list[str] = []
        server = make_server(echo, Log(write=lines.append), limits)
        await server.start(path)
        try:
            await test(server, lines)
        finally:
            await server.stop(0)

    asyncio.run(run())


async def exchange(path: Path, data: bytes, *, whole: bool = False) -> bytes:
    """What the server sends first, nothing when it ends the connection; or all until it ends it."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    found = b""
    with suppress(ConnectionError):
        writer.write(data)
        async with asyncio.timeout(REAL_TIMEOUT):
            while part := await reader.read(65536):
                found += part
                if not whole:
                    break
    writer.close()
    return found


@pytest.mark.parametrize("uid", [CALLER, STRANGER])
def test_the_caller_is_answered_and_no_other_process(
    tmp_path: Path, uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(_server: LocalServer, lines: list[str]) -> None:
        monkeypatch.setattr(server_module, "read_peer", Mock(return_value=uid))
        for _ in range(2):
            found = await exchange(tmp_path / "socket", HELLO)
            assert bool(found) is (uid == CALLER)
        assert len(lines) == (uid == STRANGER)

    serving(tmp_path / "socket", LocalLimits(callers=frozenset({CALLER})), test)


def test_connections_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "socket"

    async def test(server: LocalServer, lines: list[str]) -> None:
        open_ones = [await asyncio.open_unix_connection(str(path)) for _ in range(2)]
        for reader, _ in open_ones:
            await reader.read(1)
        assert await exchange(path, HELLO) == b""
        open_ones[0][1].close()
        await open_ones[0][1].wait_closed()
        while len(server.connections) == 2:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        assert await exchange(path, HELLO)
        open_ones[1][1].close()
        assert len(lines) == 1

    serving(path, LocalLimits(connections=2), test)


def test_floods_of_frames_end_a_metered_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However long the machine takes for them, they come within a second.
    monkeypatch.setattr(server_module, "FrameMeter", partial(FrameMeter, clock=lambda: 0.0))
    path = tmp_path / "socket"
    begin = make_frame(Kind.HEADERS, END_HEADERS, 1, HEADERS)
    resets = b"".join(
        make_frame(Kind.HEADERS, END_HEADERS, number, HEADERS) + make_reset(number, 8)
        for number in range(3, 2003, 2)
    )

    async def test(_server: LocalServer, _lines: list[str]) -> None:
        found = await exchange(path, HELLO + begin + resets, whole=True)
        assert b"more than 200 cancelled calls a second" in found

    serving(path, LocalLimits(is_metered=True), test)


def test_requests_that_never_end_take_no_more_than_they_may(tmp_path: Path) -> None:
    """Requests that are announced large and stop halfway; complete ones of the same size pass one by one."""
    path = tmp_path / "socket"
    limit = 256 * 1024

    async def test(server: LocalServer, _lines: list[str]) -> None:
        channel = open_local(str(path))
        calls = [await channel.begin("/a.B/C", (), 10.0) for _ in range(8)]
        part = b"\0" + (200_000).to_bytes(4) + bytes(60_000)
        for call in calls:
            await call.send_data(part)
        ended = [call.status for call in calls]
        while sum(status is not None for status in ended) < 4:
            await asyncio.sleep(0)
            ended = [call.status for call in calls]
        assert {status.code for status in ended if status is not None} == {Code.RESOURCE_EXHAUSTED}
        assert 0 < server.held <= limit
        for call in calls:
            call.cancel()
        while server.held:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        for _ in range(8):
            call = await channel.begin("/a.B/C", (), 10.0)
            await call.send(bytes(200_000), last=True)
            assert await call.receive() == bytes(200_000)
            assert (await call.end()).code == Code.OK
        assert server.held == 0
        channel.close()

    serving(path, LocalLimits(request_memory=limit, bounds=Bounds(streams=16)), test)
