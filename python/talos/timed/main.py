"""timed: the node's clock."""

import time
from functools import partial

from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.run import Daemon, run
from talos.resource import ids
from talos.resource.controller.controller import Controller
from talos.resource.state import NotFoundError
from talos.system.clock import Clock, KernelClock
from talos.system.logging import Log
from talos.timed.controllers.sync import OpenSource, Settings, Source, TimeSyncController
from talos.timed.ntp.client import query
from talos.timed.ntp.servers import Servers, open_plain
from talos.timed.ptp import PtpDevices
from talos.timed.service import TimeService


def make_controllers(clock: Clock, open_source: OpenSource, log: Log) -> list[Controller]:
    """Every controller of this daemon."""
    return [TimeSyncController(clock, open_source, log)]


def make_source(clock: Clock, log: Log, settings: Settings) -> Source:
    """What the settings name."""
    if settings.devices:
        return PtpDevices(settings.devices, log)
    if not settings.use_nts:
        return Servers(settings.servers, open_plain, clock.now, log)
    # By need: with it comes a second interface to OpenSSL, of several MiB.
    from talos.timed.nts.key_exchange import make_moment
    from talos.timed.nts.session import open_nts

    moment = make_moment(clock.now, lambda: clock.read().synced)
    return Servers(settings.servers, open_nts(moment), clock.now, log)


async def serve_time(daemon: Daemon) -> None:
    """Serve until the daemon stops."""
    clock = KernelClock()
    controllers = make_controllers(clock, partial(make_source, clock, daemon.log), daemon.log)
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
