"""clusterd: the node's part in its cluster: identity, discovery, membership, etcd."""

from functools import partial

from talos.api.machine import machine_pb2
from talos.api.rpc import Service
from talos.clusterd.controllers.config import ClusterInfoController, DiscoveryConfigController
from talos.clusterd.controllers.discovery_service import DiscoveryServiceController
from talos.clusterd.controllers.etcd_certificates import EtcdCertificatesController
from talos.clusterd.controllers.etcd_config import EtcdConfigController, EtcdSpecController
from talos.clusterd.controllers.etcd_member import EtcdMemberController
from talos.clusterd.controllers.kubespan import (
    KubeSpanConfigController,
    KubeSpanEndpointController,
    KubeSpanPeerSpecController,
)
from talos.clusterd.controllers.local_affiliate import LocalAffiliateController
from talos.clusterd.controllers.members import AffiliateMergeController, EndpointController, MemberController
from talos.clusterd.controllers.nodename import NodenameController
from talos.clusterd.controllers.siderolink import SiderolinkManagerController
from talos.clusterd.controllers.virtual_address import VirtualAddressController
from talos.clusterd.etcd.join import MemberJoin
from talos.clusterd.etcd.membership_service import MembershipService
from talos.clusterd.etcd.removal import MemberRemoval
from talos.clusterd.etcd.service import EtcdService
from talos.clusterd.etcd.upgrade_lock import UpgradeLock
from talos.etcd.access import EtcdAccess
from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.run import Daemon, run
from talos.process.state import remote_state
from talos.resource.controller.controller import Controller
from talos.rpc.bridge import Bridge
from talos.rpc.channel import open_remote
from talos.system.logging import Log


def make_controllers(
    bridge: Bridge, access: EtcdAccess, virtual: VirtualAddressController, log: Log
) -> list[Controller]:
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
        KubeSpanConfigController(),
        KubeSpanPeerSpecController(log),
        KubeSpanEndpointController(),
        EtcdConfigController(),
        EtcdSpecController(),
        EtcdCertificatesController(),
        EtcdMemberController(access, log),
        virtual,
        SiderolinkManagerController(partial(open_remote, bridge), log),
    ]


async def serve_cluster(daemon: Daemon) -> None:
    """Run the controllers against the node's State until the daemon stops."""
    async with remote_state(daemon) as remote:
        access = EtcdAccess(daemon, remote)
        virtual = VirtualAddressController(access.local, daemon.log)
        removal = MemberRemoval(access, daemon.log)
        membership = MembershipService(
            access, MemberJoin(access, daemon.log), removal, UpgradeLock(access), virtual.resign
        )
        handlers = EtcdService(remote, access, removal).make_handlers()
        machine = Service(machine_pb2.DESCRIPTOR.services_by_name["MachineService"], handlers)
        controllers = make_controllers(daemon.bridge, access, virtual, daemon.log)
        async with mirrored_state(daemon, controllers) as state:
            services = (machine, membership.make_service())
            await run_controller_daemon(daemon, state, controllers, services=services)


def main() -> None:
    """Entry of the daemon."""
    run(serve_cluster, name="clusterd")
