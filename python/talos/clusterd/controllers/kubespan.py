"""KubeSpan's config, its peers, and the endpoints that they were seen at."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Network, ip_address

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.definitions.kubespan_pb2 import EndpointSpec
from talos.clusterd.kubespan.peers import Own, Session, make_peers
from talos.clusterd.kubespan.publish import make_config
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.pki.wireguard import is_key
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.resource import Resource
from talos.rpc.port.addresses import is_kubespan
from talos.system.logging import Log


class KubeSpanConfigController(Reconciler):
    """MachineConfig → KubeSpanConfig; none as long as the cluster has no id and no secret."""

    name = "kubespan.ConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.KUBE_SPAN_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None or not effective.cluster_id(config):
                return
            # What is no key is named by discovery, which needs it, too.
            if is_key(effective.cluster_secret(config)):
                await runtime.put(*ids.KUBE_SPAN_CONFIG, make_config(config))


class KubeSpanPeerSpecController(Reconciler):
    """Affiliate, KubeSpanPeerStatus → KubeSpanPeerSpec, by the public key, while KubeSpan is on.

    What a peer has had is in its last PeerSpec: it outlives a restart of this daemon.
    """

    name = "kubespan.PeerSpecController"
    inputs = (
        Input(*ids.KUBE_SPAN_CONFIG),
        Input(*ids.KUBE_SPAN_IDENTITY),
        Input(*ids.IDENTITY),
        Input(*ids.NODE_ADDRESS_CURRENT),
        Input(kinds.AFFILIATE),
        Input(kinds.KUBE_SPAN_PEER_STATUS),
    )
    outputs = (Output(kinds.KUBE_SPAN_PEER_SPEC),)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._done: object = None
        """What the last round was made of: a status changes every 30 s, mostly without effect here."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one for each of the other nodes."""
        config = await runtime.get_or_none(*ids.KUBE_SPAN_CONFIG)
        own = None
        found = await runtime.list(kinds.AFFILIATE)
        affiliates = [one.spec for one in sorted(found, key=_seen_first)]
        if config is not None and config.spec.enabled:
            own = await _read_own(runtime, affiliates)
        seen_at = await _read_seen(runtime)
        wanted = own, affiliates, seen_at
        if wanted == self._done:
            return
        async with runtime.track_outputs():
            if own is not None:
                await self._write(runtime, own, affiliates, seen_at)
        self._done = wanted

    async def _write(
        self,
        runtime: ControllerRuntime,
        own: Own,
        affiliates: Sequence[AffiliateSpec],
        seen_at: Mapping[str, bytes],
    ) -> None:
        written = await runtime.list(kinds.KUBE_SPAN_PEER_SPEC)
        sessions = {
            one.id: Session(allowed_ips=one.spec.allowed_ips, address=seen_at[one.id])
            for one in written
            if one.id in seen_at
        }
        peers, problems = make_peers(affiliates, own, sessions)
        for problem in problems:
            self._log.once(problem)
        for key, peer in peers.items():
            await runtime.put(kinds.KUBE_SPAN_PEER_SPEC, key, peer)


def _seen_first(affiliate: Resource[AffiliateSpec]) -> tuple[int, str]:
    return affiliate.metadata.created, affiliate.id


async def _read_seen(runtime: ControllerRuntime) -> Mapping[str, bytes]:
    """Where the peers that are up are seen, by their keys."""
    statuses = await runtime.list(kinds.KUBE_SPAN_PEER_STATUS)
    return {one.id: one.spec.endpoint.ip for one in statuses if one.spec.state == enums.PEER_STATE_UP}


async def _read_own(runtime: ControllerRuntime, affiliates: Sequence[AffiliateSpec]) -> Own | None:
    """What no peer has; None until this node has keys and an address in KubeSpan."""
    identity = await runtime.get_or_none(*ids.IDENTITY)
    mesh = await runtime.get_or_none(*ids.KUBE_SPAN_IDENTITY)
    if identity is None or mesh is None:
        return None
    current = await runtime.get_or_none(*ids.NODE_ADDRESS_CURRENT)
    present = [prefix.ip[:16] for prefix in current.spec.addresses] if current else []
    subnet = mesh.spec.subnet
    return Own(
        node_id=identity.spec.node_id,
        public_key=mesh.spec.public_key,
        subnet=IPv6Network((subnet.ip, subnet.prefix_length)),
        addresses=frozenset(map(ip_address, [*present, mesh.spec.address.ip])),
        networks=[
            network
            for one in affiliates
            if one.node_id == identity.spec.node_id
            for network in one.kube_span.additional_addresses
        ],
    )


class KubeSpanEndpointController(Reconciler):
    """KubeSpanPeerStatus, Affiliate → KubeSpanEndpoint: where a peer was seen, if that is to be published."""

    name = "kubespan.EndpointController"
    inputs = (Input(*ids.KUBE_SPAN_CONFIG), Input(kinds.AFFILIATE), Input(kinds.KUBE_SPAN_PEER_STATUS))
    outputs = (Output(kinds.KUBE_SPAN_ENDPOINT),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one for each peer that is up."""
        config = await runtime.get_or_none(*ids.KUBE_SPAN_CONFIG)
        async with runtime.track_outputs():
            if config is None or not config.spec.harvest_extra_endpoints:
                return
            owners: dict[str, str] = {}
            for one in sorted(await runtime.list(kinds.AFFILIATE), key=_seen_first):
                # Of two with one key the first is the peer, as above.
                owners.setdefault(one.spec.kube_span.public_key, one.spec.node_id)
            for peer in await runtime.list(kinds.KUBE_SPAN_PEER_STATUS):
                is_seen = peer.spec.state == enums.PEER_STATE_UP and peer.spec.endpoint.ip
                if is_seen and peer.id in owners and not is_kubespan(ip_address(peer.spec.endpoint.ip)):
                    spec = EndpointSpec(affiliate_id=owners[peer.id], endpoint=peer.spec.endpoint)
                    await runtime.put(kinds.KUBE_SPAN_ENDPOINT, peer.id, spec)
