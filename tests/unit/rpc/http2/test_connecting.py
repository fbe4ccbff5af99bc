"""When a channel connects, and whose failure a call gets."""

import asyncio
import errno
import socket
from typing import override

import pytest

from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.client import Channel, ClientConnection, NotConnectedError
from talos.rpc.port.remote import RemoteChannel, RemoteServer


class Server(Channel):
    """A server that is down at first; the attempt made then fails once ``end`` is set."""

    def __init__(self) -> None:
        super().__init__("server", ASYNCIO)
        self.is_up = False
        self.begun = asyncio.Event()
        self.end = asyncio.Event()
        self.dials = 0

    @override
    async def dial(self) -> ClientConnection:
        self.dials += 1
        self.begun.set()
        if self.is_up:
            return ClientConnection()
        await self.end.wait()
        raise OSError("no answer in time")


async def come_up() -> Server:
    """A server that comes up while a call waits for it."""
    server = Server()
    early = asyncio.create_task(server.begin("/test.Echo/Unary", (), None))
    await server.begun.wait()
    server.is_up = True
    late = asyncio.create_task(server.begin("/test.Echo/Unary", (), None))
    await asyncio.sleep(0)
    server.end.set()
    with pytest.raises(NotConnectedError, match="failed to connect to server: no answer in time"):
        await early
    assert (await late).status is None
    return server


def test_a_call_does_not_fail_with_an_attempt_that_is_older() -> None:
    assert asyncio.run(come_up()).dials == 2


def test_an_attempt_without_waiters_is_forgotten() -> None:
    async def main() -> None:
        server = Server()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await server.begin("/test.Echo/Unary", (), None)
        server.end.set()
        server.is_up = True
        await server.begin("/test.Echo/Unary", (), None)
        assert server.dials == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.9', 50000)"), "no route to host"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "[Tt]emporary failure.*"),
    ],
)
def test_why_there_is_no_connection(error: OSError, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async def refuse(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refuse)
        server = RemoteChannel(RemoteServer(host="10.0.0.9", port=50000, context=None), ASYNCIO)
        with pytest.raises(NotConnectedError, match=rf"failed to connect to 10\.0\.0\.9:50000: {reason}$"):
            await server.begin("/test.Echo/Unary", (), None)

    asyncio.run(main())


@pytest.mark.parametrize("host", ["a..b", "a" * 300, "a\0b", "caf\udce9"])
def test_a_host_that_is_no_name(host: str) -> None:
    async def main() -> None:
        server = RemoteChannel(RemoteServer(host=host, port=50000, context=None), ASYNCIO)
        with pytest.raises(NotConnectedError, match="failed to connect to "):
            await server.begin("/test.Echo/Unary", (), None)

    asyncio.run(main())
