"""kubed: Kubernetes on this node: certificates, the kubelet's settings, the control plane, manifests."""

import socket
from pathlib import Path

import trio

from talos.api.machine import machine_pb2
from talos.api.rpc import Service
from talos.etcd.access import EtcdAccess
from talos.kubed.controllers.api_access import (
    AccessConfigController,
    AccessEndpointController,
    ServiceAccountController,
)
from talos.kubed.controllers.bootstrap_token import BootstrapTokenController
from talos.kubed.controllers.certificates import (
    CertSANsController,
    DynamicCertificatesController,
    KubernetesSecretsController,
)
from talos.kubed.controllers.control_plane import ControlPlaneConfigController
from talos.kubed.controllers.extra_manifests import (
    ExtraManifestController,
    ExtraManifestsConfigController,
)
from talos.kubed.controllers.final_config import ControlPlaneFinalController
from talos.kubed.controllers.kubelet_request import KubeletRequestController, probe_kubelet
from talos.kubed.controllers.manifest_apply import ManifestApplyController
from talos.kubed.controllers.manifests import BootstrapConfigController, ManifestController
from talos.kubed.controllers.node import NodeIPConfigController, NodeIPController, NodeMarksController
from talos.kubed.controllers.node_apply import NodeApplyController, NodeCordonedSpecController
from talos.kubed.controllers.node_status import NodeStatusController
from talos.kubed.controllers.prism import (
    PrismConfigController,
    PrismController,
    PrismEndpointsController,
)
from talos.kubed.controllers.serving_certificates import ServingCertificatesController
from talos.kubed.controllers.static_pod_server import StaticPodServer
from talos.kubed.controllers.static_pod_status import StaticPodStatusController
from talos.kubed.controllers.static_pods import ControlPlanePodController
from talos.kubed.kubelet_service import KubeletService
from talos.kubed.node_access import KubeletIdentity, NodeAccess
from talos.kubed.service import KubernetesService
from talos.kubed.shutdown.bus import serve_bus
from talos.kubed.shutdown.inhibitors import Inhibitors
from talos.process.daemons import KUBELET_BUS
from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.listener import take_listener
from talos.process.run import Daemon, run
from talos.process.state import remote_state
from talos.resource.controller.controller import Controller
from talos.system.logging import Log


def make_controllers(
    etcd: EtcdAccess, access: NodeAccess, listener: socket.socket, log: Log
) -> list[Controller]:
    """Every controller of this daemon; the kubelet fetches its pods at ``listener``."""
    return [
        CertSANsController(),
        DynamicCertificatesController(),
        KubernetesSecretsController(),
        NodeIPConfigController(),
        NodeIPController(),
        NodeMarksController(),
        ControlPlaneConfigController(),
        ControlPlaneFinalController(),
        ControlPlanePodController(etcd, log),
        StaticPodServer(listener),
        PrismEndpointsController(),
        PrismConfigController(),
        PrismController(),
        BootstrapConfigController(),
        ManifestController(),
        ExtraManifestsConfigController(),
        ExtraManifestController(log),
        ManifestApplyController(etcd, log),
        BootstrapTokenController(log),
        AccessConfigController(),
        AccessEndpointController(log),
        ServiceAccountController(etcd, log),
        NodeStatusController(access, log),
        NodeCordonedSpecController(),
        NodeApplyController(access, log),
        StaticPodStatusController(access.kubelet, log),
        ServingCertificatesController(log),
        KubeletRequestController(access, probe_kubelet),
    ]


async def serve_kubernetes(daemon: Daemon) -> None:
    """Run the controllers against the node's State until the daemon stops."""
    identity = KubeletIdentity()
    async with trio.open_nursery() as nursery, remote_state(daemon) as remote:
        inhibitors = Inhibitors(nursery)
        # Before the kubelet can start: it looks for a bus only once.
        bus = Path(KUBELET_BUS)
        bus.parent.mkdir(mode=0o700, exist_ok=True)
        await nursery.start(serve_bus, bus, inhibitors, daemon.log)
        etcd = EtcdAccess(daemon, remote)
        controllers = make_controllers(etcd, NodeAccess(identity), take_listener(), daemon.log)
        async with mirrored_state(daemon, controllers) as state:
            descriptor = machine_pb2.DESCRIPTOR.services_by_name["MachineService"]
            public = Service(descriptor, KubernetesService(state).make_public())
            internal = KubeletService(state, identity, inhibitors, daemon.log).make_internal()
            await run_controller_daemon(daemon, state, controllers, services=(public, internal))
        nursery.cancel_scope.cancel()


def main() -> None:
    """Entry of the daemon."""
    run(serve_kubernetes, name="kubed")
