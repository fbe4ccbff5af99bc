"""clusterd: the node's part in its cluster: identity, discovery, membership, etcd."""

from talos.clusterd.controllers.config import ClusterInfoController, DiscoveryConfigController
from talos.daemon.host import mirrored_state, run_controller_daemon
from talos.daemon.run import Daemon, run
from talos.resource.controller.controller import Controller


def make_controllers() -> list[Controller]:
    """Every controller of this daemon."""
    return [ClusterInfoController(), DiscoveryConfigController()]


async def serve_cluster(daemon: Daemon) -> None:
    """Run the controllers against the node's State until the daemon stops."""
    controllers = make_controllers()
    async with mirrored_state(daemon, controllers) as state:
        await run_controller_daemon(daemon, state, controllers)


def main() -> None:
    """Entry of the daemon."""
    run(serve_cluster, name="clusterd")
