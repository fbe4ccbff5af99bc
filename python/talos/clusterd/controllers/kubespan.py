"""KubeSpan's config, its peers, and the endpoints that they were seen at."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.kubespan_pb2 import EndpointSpec
from talos.clusterd.kubespan import make_config, make_peers
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.pki.wireguard import is_key
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
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
    """Affiliate → KubeSpanPeerSpec, by the public key, while KubeSpan is on."""

    name = "kubespan.PeerSpecController"
    inputs = (Input(*ids.KUBE_SPAN_CONFIG), Input(*ids.IDENTITY), Input(kinds.AFFILIATE))
    outputs = (Output(kinds.KUBE_SPAN_PEER_SPEC),)

    def __init__(self, log: Log) -> None:
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one for each of the other nodes."""
        config = await runtime.get_or_none(*ids.KUBE_SPAN_CONFIG)
        identity = await runtime.get_or_none(*ids.IDENTITY)
        async with runtime.track_outputs():
            if identity is None or config is None or not config.spec.enabled:
                return
            affiliates = [one.spec for one in await runtime.list(kinds.AFFILIATE)]
            peers, problems = make_peers(affiliates, identity.spec.node_id)
            for problem in problems:
                self._log.once(problem)
            for key, peer in peers.items():
                await runtime.put(kinds.KUBE_SPAN_PEER_SPEC, key, peer)


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
            owners = {
                one.spec.kube_span.public_key: one.spec.node_id for one in await runtime.list(kinds.AFFILIATE)
            }
            for peer in await runtime.list(kinds.KUBE_SPAN_PEER_STATUS):
                is_seen = peer.spec.state == enums.PEER_STATE_UP and peer.spec.endpoint.ip
                if is_seen and peer.id in owners:
                    spec = EndpointSpec(affiliate_id=owners[peer.id], endpoint=peer.spec.endpoint)
                    await runtime.put(kinds.KUBE_SPAN_ENDPOINT, peer.id, spec)
