"""udevd: devices and their names. A container has none of its own, so it is skipped there.

What names and permissions devices need, and the rules they come from, are for metal; this is
the process that will do it, with its socket and its place among the services.
"""

from talos.daemon.ready import notify_ready
from talos.daemon.run import Daemon, run
from talos.daemon.server import serve
from talos.resource.graph import Edge, make_inspect_service

SOCKET = "/system/run/udevd/udevd.sock"


async def serve_devices(daemon: Daemon) -> None:
    """Serve until told to stop."""

    async def own_edges() -> list[Edge]:
        return []

    async with serve(daemon, [make_inspect_service(own_edges)], SOCKET):
        notify_ready()
        await daemon.stopping.wait()


def main() -> None:
    """Entry of the daemon."""
    run(serve_devices, name="udevd")
