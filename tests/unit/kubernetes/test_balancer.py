"""The balancer passes bytes on to servers that accept, and around those that don't."""

import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio

from talos.kubernetes.balancer import Balancer, Endpoint


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
