"""LocalAffiliateController: what this node publishes about itself to the others of its cluster."""

from ipaddress import ip_address

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec, KubeSpanAffiliateSpec
from talos.api.machine_types import is_control_plane
from talos.api.resource import config_pb2
from talos.clusterd.controllers.discovery_service import CLUSTER_NAMESPACE, PUBLIC_ADDRESS
from talos.clusterd.kubespan.publish import make_affiliate
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.process.names import make_fqdn
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.version import get_version

_TYPES = {
    config_pb2.INIT: enums.TYPE_INIT,
    config_pb2.CONTROL_PLANE: enums.TYPE_CONTROL_PLANE,
    config_pb2.WORKER: enums.TYPE_WORKER,
}
"""The same types, of one message and of the other."""


class LocalAffiliateController(Reconciler):
    """Identity, HostnameStatus, Nodename, NodeAddress, MachineType → Affiliate, while discovery is on.

    With KubeSpan on it has the node's part of that, too.
    """

    name = "cluster.LocalAffiliateController"
    inputs = (
        Input(*ids.DISCOVERY_CONFIG),
        Input(*ids.IDENTITY),
        Input(*ids.HOSTNAME_STATUS),
        Input(*ids.NODENAME),
        Input(*ids.NODE_ADDRESS_ROUTED_NO_K8S),
        Input(*ids.MACHINE_TYPE),
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.KUBE_SPAN_CONFIG),
        Input(*ids.KUBE_SPAN_IDENTITY),
        Input(*ids.NODE_ADDRESS_CURRENT_NO_K8S),
        Input(kinds.ADDRESS_STATUS, PUBLIC_ADDRESS, namespace=CLUSTER_NAMESPACE),
        Input(kinds.NODE_STATUS),
    )
    outputs = (Output(kinds.AFFILIATE, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource as soon as everything is known."""
        discovery = await runtime.get_or_none(*ids.DISCOVERY_CONFIG)
        if discovery is None:
            return
        if not discovery.spec.discovery_enabled:
            async with runtime.track_outputs():
                return
        spec = await self._make(runtime)
        if spec is not None:
            async with runtime.track_outputs():
                await runtime.put(kinds.AFFILIATE, spec.node_id, spec)

    async def _make(self, runtime: ControllerRuntime) -> AffiliateSpec | None:
        """The affiliate; None while something is missing: the last one stays then."""
        config = await read_config(runtime)
        identity = await runtime.get_or_none(*ids.IDENTITY)
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        nodename = await runtime.get_or_none(*ids.NODENAME)
        addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_ROUTED_NO_K8S)
        machine_type = await runtime.get_or_none(*ids.MACHINE_TYPE)
        if not (config and identity and hostname and nodename and addresses and machine_type):
            return None
        version = get_version()
        own_type = _TYPES.get(machine_type.spec.machine_type, enums.TYPE_UNKNOWN)
        spec = AffiliateSpec(
            node_id=identity.spec.node_id,
            hostname=make_fqdn(hostname.spec),
            nodename=nodename.spec.nodename,
            operating_system=f"Talos ({version.tag})",
            machine_type=own_type,
            addresses=[NetIP(ip=prefix.ip[:16]) for prefix in addresses.spec.addresses],
        )
        if is_control_plane(own_type):
            spec.control_plane.api_server_port = effective.api_server_port(config)
        kubespan = await self._make_kubespan(runtime, spec.nodename)
        if kubespan is not None:
            spec.kube_span.CopyFrom(kubespan)
        return spec

    async def _make_kubespan(self, runtime: ControllerRuntime, name: str) -> KubeSpanAffiliateSpec | None:
        config = await runtime.get_or_none(*ids.KUBE_SPAN_CONFIG)
        identity = await runtime.get_or_none(*ids.KUBE_SPAN_IDENTITY)
        if config is None or identity is None or not config.spec.enabled:
            return None
        current = await runtime.get_or_none(*ids.NODE_ADDRESS_CURRENT_NO_K8S)
        public = await runtime.get_or_none(kinds.ADDRESS_STATUS, PUBLIC_ADDRESS, namespace=CLUSTER_NAMESPACE)
        node = await runtime.get_or_none(kinds.NODE_STATUS, name)
        return make_affiliate(
            config.spec,
            identity.spec,
            [ip_address(prefix.ip) for prefix in (current.spec.addresses if current else ())],
            [ip_address(public.spec.address.ip)] if public else [],
            node.spec.pod_cid_rs if node else (),
        )
