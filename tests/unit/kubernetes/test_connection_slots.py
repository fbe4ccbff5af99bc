"""Places of a balancer's connections: idle ones make room, and root's are never taken from it."""

import os
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import override

import pytest
import trio

from talos.kubernetes.balancer import Balancer
from talos.kubernetes.connection_slots import ConnectionSlots
from talos.system.files import KernelFiles
from talos.system.logging import Log
from talos.system.proc.sockets import find_socket, parse_sockets

USER = 1000


class Tables(KernelFiles):
    """The kernel's tables, in which sockets of some inodes are root's, and all others a user's."""

    def __init__(self) -> None:
        self.root: set[int] = set()
        self.reads = 0

    @override
    def read(self, path: str) -> str:
        self.reads += 1
        title, *lines = super().read(path).splitlines()
        return "\n".join([title, *map(self._own, lines)]) + "\n"

    def _own(self, line: str) -> str:
        fields = line.split()
        uid = 0 if int(fields[9]) in self.root or fields[9] == "0" else USER
        return re.sub(rf"^((\s*\S+){{7}}\s+){fields[7]}", rf"\g<1>{uid}", line)


class Cluster:
    """A balancer in front of a server that echoes, and its clients."""

    def __init__(self, port: int, tables: Tables, clients: AsyncExitStack) -> None:
        self._port = port
        self._tables = tables
        self._clients = clients

    async def connect(self, *, root: bool = False) -> trio.SocketStream:
        """A client that has no slot yet, perhaps."""
        raw = trio.socket.socket()
        if root:
            self._tables.root.add(os.fstat(raw.fileno()).st_ino)
        await raw.connect(("127.0.0.1", self._port))
        return await self._clients.enter_async_context(trio.SocketStream(raw))


async def is_served(client: trio.SocketStream) -> bool:
    """Whether what a client sends comes back; False when the connection was closed."""
    with suppress(trio.BrokenResourceError):
        await client.send_all(b"x")
        return await client.receive_some() == b"x"
    return False


async def is_closed(client: trio.SocketStream) -> bool:
    """Whether a client that sends nothing is closed; waits for it."""
    with suppress(trio.BrokenResourceError):
        return await client.receive_some() == b""
    return False


@asynccontextmanager
async def balancing(slots: ConnectionSlots) -> AsyncGenerator[Cluster]:
    """A balancer with these slots."""

    async def echo(stream: trio.SocketStream) -> None:
        async with stream:
            async for block in stream:
                await stream.send_all(block)

    assert isinstance(slots.files, Tables)
    async with AsyncExitStack() as clients, trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, echo, 0, host="127.0.0.1")
        [server] = await nursery.start(serve)
        balancer = Balancer(lambda _endpoint, _healthy: None, slots)
        balancer.set_endpoints([server.socket.getsockname()])
        [own] = await nursery.start(partial(trio.serve_tcp, balancer.serve, 0, host="127.0.0.1"))
        yield Cluster(own.socket.getsockname()[1], slots.files, clients)
        nursery.cancel_scope.cancel()


def make_slots(idle_timeout: float, *, maximum: int = 4, reserved: int = 1) -> ConnectionSlots:
    return ConnectionSlots(
        maximum=maximum,
        reserved=reserved,
        idle_timeout=idle_timeout,
        files=Tables(),
        log=Log(write=lambda _line: None),
    )


async def test_the_connection_that_was_idle_for_longest_makes_room() -> None:
    async with balancing(make_slots(idle_timeout=0)) as cluster:
        clients = [await cluster.connect() for _ in range(3)]
        for client in clients:
            assert await is_served(client)
        assert await is_served(clients[0])
        assert await is_served(await cluster.connect())
        assert await is_closed(clients[1])
        assert await is_served(clients[0])
        assert await is_served(clients[2])


async def test_a_client_that_says_nothing_makes_room() -> None:
    async with balancing(make_slots(idle_timeout=0)) as cluster:
        silent = [await cluster.connect() for _ in range(3)]
        assert await is_served(await cluster.connect())
        assert await is_closed(silent[0])


async def test_nothing_is_closed_for_its_silence_while_there_are_places() -> None:
    slots = make_slots(idle_timeout=0)
    async with balancing(slots) as cluster:
        clients = [await cluster.connect() for _ in range(3)]
        for client in [*clients, *clients]:
            assert await is_served(client)
    assert isinstance(slots.files, Tables)
    assert slots.files.reads == 0


async def test_connections_in_use_stay_and_root_has_places() -> None:
    async with balancing(make_slots(idle_timeout=60)) as cluster:
        users = [await cluster.connect() for _ in range(3)]
        for client in users:
            assert await is_served(client)
        assert not await is_served(await cluster.connect())
        root = await cluster.connect(root=True)
        assert await is_served(root)
        assert not await is_served(await cluster.connect(root=True))
        for client in [*users, root]:
            assert await is_served(client)
        await users[0].aclose()
        while not await is_served(await cluster.connect(root=True)):
            await trio.lowlevel.checkpoint()


async def test_root_is_never_closed_for_others() -> None:
    async with balancing(make_slots(idle_timeout=0)) as cluster:
        root = [await cluster.connect(root=True) for _ in range(2)]
        for client in root:
            assert await is_served(client)
        user = await cluster.connect()
        assert await is_served(user)
        other = await cluster.connect()
        assert await is_served(other)
        assert await is_closed(user)
        root += [await cluster.connect(root=True)]
        assert await is_served(root[-1])
        root += [await cluster.connect(root=True)]
        assert await is_served(root[-1])
        assert await is_closed(other)
        assert not await is_served(await cluster.connect())
        for client in root:
            assert await is_served(client)


async def test_a_closed_socket_is_nobodys() -> None:
    """The kernel shows it as root's; a client that has closed leaves no connection that stays."""
    slots = make_slots(idle_timeout=0, maximum=2)
    async with balancing(slots) as cluster:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            left = await trio.open_tcp_stream(*listener.getsockname())
            accepted = trio.socket.from_stdlib_socket(listener.accept()[0])
            with accepted:
                held = slots.take(accepted)
                assert held is not None
                await left.aclose()
                assert await is_served(await cluster.connect())
                assert held.scope.cancel_called


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_socket_is_found_by_its_endpoints(family: socket.AddressFamily) -> None:
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as client:
            protocol = "tcp" if family == socket.AF_INET else "tcp6"
            text = KernelFiles().read(f"/proc/self/net/{protocol}")
            ends = client.getsockname()[:2], client.getpeername()[:2]
            found = find_socket(text, protocol, *ends)
            assert found in parse_sockets(text, protocol)
            assert found is not None
            assert found.inode == os.fstat(client.fileno()).st_ino
            assert found.uid == os.getuid()
    assert find_socket(text, protocol, ends[0], ends[0]) is None
