"""The balancer passes bytes on to servers that accept, and around those that don't."""

import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
from trio.testing import MockClock

from talos.kubernetes.balancer import MAX_WAIT, REFUSED_SERVER_DELAY, Balancer, Endpoint


async def echo(stream: trio.SocketStream, name: bytes) -> None:
    async with stream:
        while block := await stream.receive_some():
            await stream.send_all(name + block)


async def call(port: int) -> bytes:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"x")
        await stream.send_eof()
        return b"".join([block async for block in stream])


def closed_port() -> int:
    """A port without a listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


async def test_servers_take_turns_and_dead_ones_are_passed_by() -> None:
    health: dict[Endpoint, bool] = {}

    balancer = Balancer(lambda endpoint, healthy: health.update({endpoint: healthy}))
    async with trio.open_nursery() as nursery:
        endpoints: list[Endpoint] = [("127.0.0.1", closed_port())]
        for name in (b"a", b"b"):
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

            async def serve(stream: trio.SocketStream, name: bytes = name) -> None:
                await echo(stream, name)

            nursery.start_soon(trio.serve_listeners, serve, listeners)
            endpoints.append(("127.0.0.1", listeners[0].socket.getsockname()[1]))
        balancer.set_endpoints(endpoints)
        own = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, balancer.serve, own)
        port = own[0].socket.getsockname()[1]
        answers = [await call(port) for _ in range(4)]
        assert sorted(answers) == [b"ax", b"ax", b"bx", b"bx"]
        assert [health[endpoint] for endpoint in endpoints] == [False, True, True]
        balancer.set_endpoints([])
        with suppress(trio.BrokenResourceError):
            assert await call(port) == b""
        nursery.cancel_scope.cancel()


type Handler = Callable[[trio.SocketStream], Awaitable[object]]


async def leave(stream: trio.SocketStream) -> None:
    """Read from the client, and send nothing."""
    async with stream:
        await stream.receive_some()


async def vanish(stream: trio.SocketStream) -> None:
    """Reset the connection, as a kernel does with what no program has accepted."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def answer_once(stream: trio.SocketStream, name: bytes) -> None:
    """One answer, then no more."""
    async with stream:
        await stream.send_all(name + await stream.receive_some())


@asynccontextmanager
async def balancing(*handlers: Handler) -> AsyncGenerator[tuple[trio.SocketStream, dict[int, bool]]]:
    """A client of a balancer for these servers, and the health of those that it has tried, by their place."""
    health: dict[int, bool] = {}
    async with trio.open_nursery() as nursery:

        async def start(handler: Handler) -> Endpoint:
            listeners = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
            return "127.0.0.1", listeners[0].socket.getsockname()[1]

        endpoints = [await start(handler) for handler in handlers]
        balancer = Balancer(lambda endpoint, healthy: health.update({endpoints.index(endpoint): healthy}))
        balancer.set_endpoints(endpoints)
        async with await trio.open_tcp_stream(*await start(balancer.serve)) as client:
            yield client, health
        nursery.cancel_scope.cancel()


async def test_a_client_goes_on_at_the_next_server_while_none_has_answered() -> None:
    async with balancing(leave, vanish, partial(echo, name=b"c")) as (client, health):
        await client.send_all(b"x")
        assert await client.receive_some() == b"cx"
        await client.send_all(b"y")
        assert await client.receive_some() == b"cy"
        assert health == {0: False, 1: False, 2: True}


async def test_a_client_that_had_an_answer_stays() -> None:
    async with balancing(partial(answer_once, name=b"a"), partial(echo, name=b"b")) as (client, health):
        await client.send_all(b"x")
        assert b"".join([block async for block in client]) == b"ax"
        assert health == {0: True}


async def test_a_client_that_ends_first_is_no_fault_of_a_server() -> None:
    async with balancing(leave, partial(echo, name=b"b")) as (client, health):
        await client.send_eof()
        assert await client.receive_some() == b""
        assert health == {0: True}


async def test_a_client_that_says_nothing_is_no_fault_of_a_server() -> None:
    async with balancing(trio.SocketStream.aclose, trio.SocketStream.aclose) as (client, health):
        assert await client.receive_some() == b""
        assert health == {0: True, 1: True}


async def test_what_no_server_answers_ends() -> None:
    async with balancing(leave, leave) as (client, health):
        await client.send_all(b"x")
        assert await client.receive_some() == b""
        assert health == {0: False, 1: False}


class Refusing:
    """A balancer for one server, whose socket refuses until it listens."""

    def __init__(
        self, port: int, server: trio.socket.SocketType, balancer: Balancer, dials: list[bool]
    ) -> None:
        self.port, self.server, self.balancer, self.dials = port, server, balancer, dials
        self.answers: list[bytes] = []

    async def call(self) -> None:
        try:
            answer = await call(self.port)
        except trio.BrokenResourceError:  # closed, while what the client has sent was not read
            answer = b""
        self.answers.append(answer)

    async def see_refusal(self, nursery: trio.Nursery) -> None:
        """Start a call, which waits then."""
        nursery.start_soon(self.call)
        while not self.dials:
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def refusing() -> AsyncGenerator[Refusing]:
    dials = list[bool]()
    with trio.socket.socket() as server:
        await server.bind(("127.0.0.1", 0))
        balancer = Balancer(lambda _, healthy: dials.append(healthy))
        balancer.set_endpoints([server.getsockname()])
        async with trio.open_nursery() as nursery:
            (own,) = await nursery.start(partial(trio.serve_tcp, balancer.serve, 0, host="127.0.0.1"))
            yield Refusing(own.socket.getsockname()[1], server, balancer, dials)
            nursery.cancel_scope.cancel()


async def test_a_server_that_refuses_is_dialled_once_in_a_pause(autojump_clock: MockClock) -> None:
    del autojump_clock
    began = trio.current_time()
    async with refusing() as case, trio.open_nursery() as nursery:
        await case.see_refusal(nursery)
        for _ in range(50):
            nursery.start_soon(case.call)
    assert case.answers == [b""] * 51
    assert trio.current_time() - began == MAX_WAIT
    assert case.dials == [False] * int(1 + MAX_WAIT / REFUSED_SERVER_DELAY)


async def test_who_waits_goes_on_when_the_server_accepts(autojump_clock: MockClock) -> None:
    del autojump_clock
    began = trio.current_time()
    async with refusing() as case, trio.open_nursery() as servers:
        async with trio.open_nursery() as nursery:
            await case.see_refusal(nursery)
            for _ in range(5):
                nursery.start_soon(case.call)
            case.server.listen()
            servers.start_soon(
                trio.serve_listeners, partial(echo, name=b"a"), [trio.SocketListener(case.server)]
            )
        servers.cancel_scope.cancel()
    assert case.answers == [b"ax"] * 6
    assert trio.current_time() - began == REFUSED_SERVER_DELAY
    assert case.dials == [False] + [True] * 6


async def test_who_waits_takes_a_server_that_is_new(autojump_clock: MockClock) -> None:
    del autojump_clock
    began = trio.current_time()
    async with refusing() as case, trio.open_nursery() as servers:
        (other,) = await servers.start(partial(trio.serve_tcp, partial(echo, name=b"b"), 0, host="127.0.0.1"))
        async with trio.open_nursery() as nursery:
            await case.see_refusal(nursery)
            case.balancer.set_endpoints([case.server.getsockname(), other.socket.getsockname()])
        servers.cancel_scope.cancel()
    assert case.answers == [b"bx"]
    assert trio.current_time() == began, "the one that refuses is still paused"
    assert case.dials == [False, True]
