"""A stream that a proxy reads gets a wider window while memory for it is spare."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.harness.limits import REAL_TIMEOUT

from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.client_call import ClientCall
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.limits import MAX_MESSAGE, WIDE_WINDOW
from talos.rpc.protocol import OK, Status
from talos.rpc.proxy.local import make_server, open_local
from talos.system.logging import Log

MESSAGE = bytes(10_000)
COUNT = 100
"""Messages that exceed every window together."""


async def answer(call: ServerCall) -> Status:
    for _ in range(COUNT):
        await call.send(MESSAGE)
    return OK


def in_call(tmp_path: Path, memory: ClientQuota, test: Callable[[ClientCall], Awaitable[None]]) -> None:
    async def run() -> None:
        path = str(tmp_path / "a.sock")
        server, channel = make_server(answer, Log(write=lambda _: None)), open_local(path)
        await server.start(path)
        try:
            async with asyncio.timeout(REAL_TIMEOUT):
                call = await channel.begin("/a.B/C", (), None)
                call.charge(memory, "a", MAX_MESSAGE)
                await call.send(b"", last=True)
                await test(call)
        finally:
            channel.close()
            await server.stop(0)

    asyncio.run(run())


@pytest.mark.parametrize("room", [1, 0])
def test_what_is_spare_is_lent_to_a_stream_in_use(tmp_path: Path, room: int) -> None:
    memory = ClientQuota(MAX_MESSAGE, "large replies", spare=room * WIDE_WINDOW)

    async def test(call: ClientCall) -> None:
        received = 0
        while (message := await call.receive()) is not None:
            assert message == MESSAGE
            received += 1
        assert received == COUNT
        assert memory.spare == 0
        call.leave()
        call.leave()
        assert memory.spare == room * WIDE_WINDOW

    in_call(tmp_path, memory, test)


def test_a_stream_that_is_not_read_has_no_wider_window(tmp_path: Path) -> None:
    memory = ClientQuota(MAX_MESSAGE, "large replies", spare=WIDE_WINDOW)

    async def test(call: ClientCall) -> None:
        assert await call.receive() == MESSAGE
        call.leave()
        assert memory.spare == WIDE_WINDOW

    in_call(tmp_path, memory, test)
