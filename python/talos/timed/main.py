"""timed: the node's clock."""

import time
from functools import partial

from talos.daemon.host import mirrored_state, run_controller_daemon
from talos.daemon.run import Daemon, run
from talos.resource import ids
from talos.resource.controller.controller import Controller
from talos.resource.state import NotFoundError
from talos.timed.service import TimeService
from talos.timed.sntp import query
from talos.timed.time_status import TimeStatusController


def make_controllers() -> list[Controller]:
    """Every controller of this daemon."""
    return [TimeStatusController()]


async def serve_time(daemon: Daemon) -> None:
    """Serve until the daemon stops."""
    controllers = make_controllers()
    async with mirrored_state(daemon, controllers) as state:

        async def configured_servers() -> list[str]:
            try:
                status = await state.get(*ids.TIME_SERVER_STATUS)
            except NotFoundError:
                return []
            return list(status.spec.ntp_servers)

        service = TimeService(configured_servers, partial(query, now=time.time)).make_service()
        await run_controller_daemon(daemon, state, controllers, services=[service])


def main() -> None:
    """Entry of the daemon."""
    run(serve_time, name="timed")
