"""registryd: the node's cache of images, served on the loopback interface. It runs while there is one.

A daemon of its own, since the cache lies on a file system that may be made by others, and everything in the
host's network may send requests: neither is for PID 1.
"""

from functools import partial

import trio

from talos.images.cache.places import HOST, PORT, ROOTS
from talos.process.callers import make_limits
from talos.process.daemons import REGISTRYD
from talos.process.ready import notify_ready
from talos.process.run import Daemon, run
from talos.rpc.server import serve

POLL_INTERVAL = 0.5
"""Seconds within which the server's thread ends."""
MAX_CONNECTIONS = 64
"""Each may take 128 KiB in the kernel, twice as its memory is counted, and a thread: 18 of its 64 MiB."""


async def serve_images(daemon: Daemon) -> None:
    """Answer requests until the daemon stops."""
    # What HTTP needs is loaded by nodes with a cache alone.
    from talos.images.cache.catalog import FlatCatalog
    from talos.images.cache.server import RegistryServer

    def report(line: str) -> None:
        daemon.log.warning("a request is refused", request=line)

    catalog = FlatCatalog(ROOTS)
    with RegistryServer((HOST, PORT), catalog, report=report, max_connections=MAX_CONNECTIONS) as server:
        async with (
            serve(daemon, (), REGISTRYD.socket, limits=make_limits(REGISTRYD)),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(trio.to_thread.run_sync, partial(server.serve_forever, POLL_INTERVAL))
            daemon.log.info(
                "images are served", address=f"{HOST}:{PORT}", folders=[str(root) for root in ROOTS]
            )
            notify_ready()
            await daemon.stopping.wait()
            await trio.to_thread.run_sync(server.shutdown)


def main() -> None:
    """Entry of the daemon."""
    run(serve_images, name="registryd")
