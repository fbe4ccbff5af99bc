"""clusterd: the node's part in its cluster: identity, discovery, membership, etcd."""

from talos.clusterd.controllers.config import ClusterInfoController, DiscoveryConfigController
from talos.clusterd.controllers.discovery_service import DiscoveryServiceController
from talos.clusterd.controllers.local_affiliate import LocalAffiliateController
from talos.clusterd.controllers.members import AffiliateMergeController, EndpointController, MemberController
from talos.clusterd.controllers.nodename import NodenameController
from talos.daemon.host import mirrored_state, run_controller_daemon
from talos.daemon.run import Daemon, run
from talos.resource.controller.controller import Controller
from talos.rpc.bridge import Bridge
from talos.system.logging import Log


def make_controllers(bridge: Bridge, log: Log) -> list[Controller]:
    """Every controller of this daemon."""
    return [
        ClusterInfoController(),
        DiscoveryConfigController(),
        NodenameController(),
        LocalAffiliateController(),
        DiscoveryServiceController(bridge, log),
        AffiliateMergeController(),
        MemberController(log),
        EndpointController(),
    ]


async def serve_cluster(daemon: Daemon) -> None:
    """Run the controllers against the node's State until the daemon stops."""
    controllers = make_controllers(daemon.bridge, daemon.log)
    async with mirrored_state(daemon, controllers) as state:
        await run_controller_daemon(daemon, state, controllers)


def main() -> None:
    """Entry of the daemon."""
    run(serve_cluster, name="clusterd")
