"""The entry of trustd: signs certificates of workers, on control plane nodes."""

import trio

from talos.process.callers import make_limits
from talos.process.daemons import TRUSTD
from talos.process.ready import notify_ready
from talos.process.run import Daemon, run
from talos.process.state import remote_state
from talos.rpc.server import serve as serve_socket
from talos.trustd.server import TrustServer


def main() -> None:
    """Run trustd."""
    run(serve, name="trustd")


async def serve(daemon: Daemon) -> None:
    """Follow the secrets and serve until the daemon stops."""
    server = await daemon.bridge.call(_make, daemon)
    async with (
        serve_socket(daemon, [], TRUSTD.socket, limits=make_limits(TRUSTD)),
        remote_state(daemon) as state,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.watch, state)
        nursery.start_soon(_listen, daemon, server)
        await daemon.stopping.wait()
        nursery.cancel_scope.cancel()
    await daemon.bridge.call(server.stop)


async def _make(daemon: Daemon) -> TrustServer:
    return TrustServer(daemon.log)


async def _listen(daemon: Daemon, server: TrustServer) -> None:
    """Listen as soon as there is a certificate to listen with."""
    await server.usable.wait()

    async def start() -> int:
        return server.start()

    port = await daemon.bridge.call(start)
    daemon.log.info("listening", port=port)
    notify_ready()
