"""bgpd: the node's routes and those of its neighbours, by BGP. It runs while an instance is configured.

A daemon of its own, since neighbours are outside: what they send stays out of PID 1, and out of networkd,
which sets the routes that this daemon writes.
"""

from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.run import Daemon, run
from talos.resource.controller.controller import Controller
from talos.system.logging import Log


def make_controllers(log: Log) -> list[Controller]:
    """Every controller of this daemon."""
    # The protocol is loaded by nodes with an instance alone.
    from talos.bgpd.controllers.speakers import BGPController

    return [BGPController(log)]


async def serve_routes(daemon: Daemon) -> None:
    """Run the controllers against the node's State until the daemon stops."""
    controllers = make_controllers(daemon.log)
    async with mirrored_state(daemon, controllers) as state:
        await run_controller_daemon(daemon, state, controllers)


def main() -> None:
    """Entry of the daemon."""
    run(serve_routes, name="bgpd")
