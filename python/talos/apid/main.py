"""The entry of apid: the API's port, open to the network."""

import trio

from talos.apid.server import ApiServer
from talos.process.ready import notify_ready
from talos.process.run import Daemon, run
from talos.process.state import remote_state


def main() -> None:
    """Run apid."""
    run(serve, name="apid")


async def serve(daemon: Daemon) -> None:
    """Follow the certificates and serve until the daemon stops."""
    server = await daemon.bridge.call(_make, daemon)
    async with remote_state(daemon) as state, trio.open_nursery() as nursery:
        nursery.start_soon(server.certificates.watch, state)
        nursery.start_soon(server.own.watch, state, daemon.log)
        nursery.start_soon(server.admission.watch, state, daemon.log)
        nursery.start_soon(_listen, daemon, server)
        await daemon.stopping.wait()
        nursery.cancel_scope.cancel()
    await daemon.bridge.call(server.stop)


async def _make(daemon: Daemon) -> ApiServer:
    return ApiServer(daemon.log)


async def _listen(daemon: Daemon, server: ApiServer) -> None:
    """Listen as soon as there are certificates to listen with, and it is known whom a machine serves."""
    await server.certificates.usable.wait()
    await server.admission.known.wait()

    async def start() -> int:
        return server.start()

    port = await daemon.bridge.call(start)
    daemon.log.info("listening", port=port)
    notify_ready()
