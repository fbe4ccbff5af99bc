"""kmsd: calls key management services for the keys of encrypted volumes. It runs while there are requests.

A daemon of its own, since the services are outside: their answers and their TLS stay out of PID 1.
"""

from functools import partial

import trio

from talos.kmsd.calls import KeyCaller
from talos.process.callers import make_limits
from talos.process.daemons import KMSD
from talos.process.ready import notify_ready
from talos.process.run import Daemon, run
from talos.rpc.channel import open_channel, open_remote
from talos.rpc.server import serve


async def serve_keys(daemon: Daemon) -> None:
    """Call until the daemon stops."""
    async with (
        serve(daemon, [], KMSD.socket, limits=make_limits(KMSD)),
        open_channel(daemon, KMSD.state_socket, wait_for_ready=True) as transport,
        trio.open_nursery() as nursery,
    ):
        caller = KeyCaller(transport, partial(open_remote, daemon.bridge), daemon.log)
        nursery.start_soon(caller.run)
        notify_ready()
        await daemon.stopping.wait()
        nursery.cancel_scope.cancel()


def main() -> None:
    """Entry of the daemon."""
    run(serve_keys, name="kmsd")
