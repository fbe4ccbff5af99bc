"""The balancer passes bytes on to servers that accept, and around those that don't."""

import socket
from contextlib import suppress

import trio

from talos.kubernetes.balancer import Balancer, Endpoint


async def echo(stream: trio.SocketStream, name: bytes) -> None:
    async with stream:
        while block := await stream.receive_some():
            await stream.send_all(name + block)


async def ask(port: int) -> bytes:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"x")
        await stream.send_eof()
        return b"".join([block async for block in stream])


def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def test_servers_take_turns_and_dead_ones_are_passed_by() -> None:
    health: dict[Endpoint, bool] = {}

    async def main() -> None:
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
            with trio.fail_after(20):
                answers = [await ask(port) for _ in range(4)]
            assert sorted(answers) == [b"ax", b"ax", b"bx", b"bx"]
            assert [health[endpoint] for endpoint in endpoints] == [False, True, True]
            balancer.set_endpoints([])
            with trio.fail_after(20), suppress(trio.BrokenResourceError):
                assert await ask(port) == b""
            nursery.cancel_scope.cancel()

    trio.run(main)
