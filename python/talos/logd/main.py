"""logd: logs and events that leave the node. It runs while a destination is configured.

A daemon of its own, since destinations are outside: what they answer, and their TLS, stays out of PID 1,
which hands it logs and events by a service beside the State, at the pace of each destination.
"""

from dataclasses import replace
from functools import partial

import trio

from talos.logd.controllers.events import Connect, EventsSinkController
from talos.logd.controllers.logs import Deliveries, KmsgLogDeliveryController, LogDeliveryController
from talos.logd.feed import Feed
from talos.process.daemons import LOGD
from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.run import Daemon, run
from talos.resource.controller.controller import Controller
from talos.rpc.channel import open_channel, open_remote
from talos.system.logging import Log

DRAIN_IDLE_TIMEOUT, DRAIN_TIMEOUT = 0.3, 5.0
"""Seconds without a new line, after which logd may stop, and seconds until it does anyway."""


def make_controllers(deliveries: Deliveries, feed: Feed, connect: Connect, log: Log) -> list[Controller]:
    """Every controller of this daemon."""
    return [
        LogDeliveryController(deliveries),
        KmsgLogDeliveryController(deliveries),
        EventsSinkController(feed, connect, log),
    ]


async def serve_logs(daemon: Daemon) -> None:
    """Deliver until the daemon stops, and then what is still to be delivered."""
    async with open_channel(daemon, LOGD.state_socket, wait_for_ready=True) as transport:
        feed = Feed(transport, daemon.log)
        deliveries = Deliveries(feed, daemon.log)
        controllers = make_controllers(deliveries, feed, partial(open_remote, daemon.bridge), daemon.log)
        drained = replace(daemon, stopping=trio.Event())

        async def drain() -> None:
            await daemon.stopping.wait()
            await deliveries.drain(quiet=DRAIN_IDLE_TIMEOUT, limit=DRAIN_TIMEOUT)
            drained.stopping.set()

        async with mirrored_state(daemon, controllers) as state, trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await run_controller_daemon(drained, state, controllers)


def main() -> None:
    """Entry of the daemon."""
    run(serve_logs, name="logd")
