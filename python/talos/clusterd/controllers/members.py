"""From affiliates by source to members of the cluster, and where its control plane is."""

import ipaddress

from talos.api.addresses import make_ip
from talos.api.definitions.cluster_pb2 import AffiliateSpec, MemberSpec
from talos.api.definitions.k8s_pb2 import EndpointSpec
from talos.api.machine_types import is_control_plane
from talos.clusterd.discovery.payload import merge_affiliate
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log

RAW_NAMESPACE = "cluster-raw"
DISCOVERED = "discovered"
"""The Endpoint that comes from discovery."""


class AffiliateMergeController(Reconciler):
    """Affiliate in the namespace of sources → Affiliate: one per node, whichever sources have it."""

    name = "cluster.AffiliateMergeController"
    inputs = (Input(kinds.AFFILIATE, namespace=RAW_NAMESPACE), Input(*ids.IDENTITY))
    outputs = (Output(kinds.AFFILIATE, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write those of the other nodes; this one's is written by another controller."""
        identity = await runtime.get_or_none(*ids.IDENTITY)
        own = identity.spec.node_id if identity else ""
        merged: dict[str, AffiliateSpec] = {}
        for resource in await runtime.list(kinds.AFFILIATE, namespace=RAW_NAMESPACE):
            node_id = resource.spec.node_id
            if node_id in merged:
                merge_affiliate(merged[node_id], resource.spec)
            elif node_id != own:
                merged[node_id] = AffiliateSpec()
                merged[node_id].CopyFrom(resource.spec)
        async with runtime.track_outputs():
            for node_id, spec in merged.items():
                await runtime.put(kinds.AFFILIATE, node_id, spec)


class MemberController(Reconciler):
    """Affiliate → Member, by the name of the node, which an affiliate without one lacks."""

    name = "cluster.MemberController"
    inputs = (Input(kinds.AFFILIATE),)
    outputs = (Output(kinds.MEMBER),)

    def __init__(self, log: Log) -> None:
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one per name; of two nodes with one name the same is taken in every round."""
        owners: dict[str, str] = {}
        async with runtime.track_outputs():
            for resource in await runtime.list(kinds.AFFILIATE):
                spec = resource.spec
                if not spec.nodename:
                    continue
                if spec.nodename in owners:
                    self._log.once(
                        f"two nodes are called {spec.nodename}: {owners[spec.nodename]} and {spec.node_id}; "
                        "give one another hostname",
                        key=f"name {spec.nodename}",
                    )
                    continue
                owners[spec.nodename] = spec.node_id
                await runtime.put(kinds.MEMBER, spec.nodename, make_member(spec))


def make_member(spec: AffiliateSpec) -> MemberSpec:
    """The member that an affiliate is."""
    member = MemberSpec(
        node_id=spec.node_id,
        addresses=spec.addresses,
        hostname=spec.hostname,
        machine_type=spec.machine_type,
        operating_system=spec.operating_system,
    )
    if spec.HasField("control_plane"):
        member.control_plane.CopyFrom(spec.control_plane)
    return member


class EndpointController(Reconciler):
    """Member → Endpoint: the addresses of the control plane nodes."""

    name = "cluster.EndpointController"
    inputs = (Input(kinds.MEMBER),)
    outputs = (Output(kinds.ENDPOINT, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, without addresses as long as there is no member."""
        found = {
            address.ip[:16]
            for member in await runtime.list(kinds.MEMBER)
            if is_control_plane(member.spec.machine_type)
            for address in member.spec.addresses
        }
        addresses = sorted(map(ipaddress.ip_address, found), key=lambda one: (one.version, int(one)))
        spec = EndpointSpec(addresses=[make_ip(address) for address in addresses])
        await runtime.put(kinds.ENDPOINT, DISCOVERED, spec)
