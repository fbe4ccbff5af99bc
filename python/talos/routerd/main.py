"""The entry of routerd: serves apid's socket until the daemon stops."""

import trio

from talos.api.definitions import runtime_pb2 as runtime
from talos.process.callers import make_limits
from talos.process.daemons import ROUTERD
from talos.process.follow import follow
from talos.process.ready import notify_ready
from talos.process.run import Daemon, run
from talos.process.state import remote_state
from talos.resource import ids
from talos.routerd.router import Router
from talos.rpc.http2.server import LocalServer
from talos.rpc.proxy.local import make_server

STOP_TIMEOUT = 5.0
"""Seconds that open calls have when routerd stops."""


def main() -> None:
    """Run routerd."""
    run(serve, name="routerd")


async def serve(daemon: Daemon) -> None:
    """Route calls until the daemon stops."""
    router, server = await daemon.bridge.call(_start, daemon)
    notify_ready()
    daemon.log.info("routing", socket=ROUTERD.socket)

    def configure(spec: runtime.APIServiceConfigSpec | None) -> None:
        router.maintenance = spec is not None and spec.readonly_role_mode

    async with remote_state(daemon) as state, trio.open_nursery() as nursery:
        nursery.start_soon(follow, state, *ids.API_SERVICE_CONFIG, configure, daemon.log)
        await daemon.stopping.wait()
        nursery.cancel_scope.cancel()
    await daemon.bridge.call(_stop, router, server)


async def _start(daemon: Daemon) -> tuple[Router, LocalServer]:
    router = Router()
    server = make_server(router.handle, daemon.log, make_limits(ROUTERD))
    await server.start(ROUTERD.socket)
    return router, server


async def _stop(router: Router, server: LocalServer) -> None:
    await server.stop(STOP_TIMEOUT)
    router.close()
