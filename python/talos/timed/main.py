"""timed: the node's clock."""

import time
from functools import partial

import trio

from talos.daemon.ready import notify_ready
from talos.daemon.run import Daemon, run
from talos.daemon.state import remote_state
from talos.resource import kinds
from talos.resource.controller.graph import Edge, dependencies, make_inspect_service
from talos.resource.controller.runtime import run_controllers
from talos.resource.state import NotFoundError
from talos.rpc.server import serve
from talos.timed.service import TimeService
from talos.timed.sntp import ask
from talos.timed.time_status import TimeStatusController

SOCKET = "/system/run/timed/timed.sock"
TIME_SERVERS_ID = "timeservers"


async def serve_time(daemon: Daemon) -> None:
    """Serve until told to stop."""
    async with remote_state(daemon) as state:
        controllers = [TimeStatusController()]
        edges = dependencies(controllers)

        async def configured_servers() -> list[str]:
            try:
                status = await state.get(kinds.TIME_SERVER_STATUS, TIME_SERVERS_ID)
            except NotFoundError:
                return []
            return list(status.spec.ntp_servers)

        async def own_edges() -> list[Edge]:
            return edges

        service = TimeService(configured_servers, partial(ask, now=time.time)).make_service()
        services = [service, make_inspect_service(own_edges)]
        async with serve(daemon, services, SOCKET), trio.open_nursery() as nursery:
            await nursery.start(run_controllers, state, controllers)
            notify_ready()
            await daemon.stopping.wait()
            nursery.cancel_scope.cancel()


def main() -> None:
    """Entry of the daemon."""
    run(serve_time, name="timed")
