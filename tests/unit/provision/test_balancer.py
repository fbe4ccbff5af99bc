"""What stands before several control plane nodes."""

import trio

from talos.provision.balancer import balance


async def test_it_leads_to_the_servers_port_of_the_same_number() -> None:
    async def greet(stream: trio.SocketStream) -> None:
        await stream.send_all(b"hello")

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.2")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, greet, [listener])
        nursery.start_soon(balance, "127.0.0.1", [port], ["127.0.0.3", "127.0.0.2"])
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                break
            except OSError:
                await trio.sleep(0.01)
        async with stream:
            assert await stream.receive_some() == b"hello"
        nursery.cancel_scope.cancel()
