"""KubeSpanManagerController: the encrypted network between a cluster's nodes."""

import math
import time
from collections.abc import Callable
from typing import override

from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec, PeerSpecSpec, PeerStatusSpec
from talos.networkd.kubespan.peers import KernelPeer, find_endpoint, find_status, make_kernel_peer
from talos.networkd.kubespan.specs import (
    LINK,
    make_chains,
    make_link,
    make_own_address,
    make_routes,
    make_rules,
)
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.resource import ids, kinds
from talos.resource.addresses import make_rule_id, parse_interface, route_spec_id
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.net.links import LinkError, Links

INTERVAL = 30.0
"""Seconds between looks at the peers, of which the kernel reports no change."""
_LAYER = enums.CONFIG_OPERATOR


class KubeSpanManagerController(Reconciler):
    """KubeSpanConfig, KubeSpanIdentity, KubeSpanPeerSpec → network specs, chains, KubeSpanPeerStatus."""

    name = "kubespan.ManagerController"
    inputs = (Input(*ids.KUBE_SPAN_CONFIG), Input(*ids.KUBE_SPAN_IDENTITY), Input(kinds.KUBE_SPAN_PEER_SPEC))
    outputs = (
        Output(kinds.LINK_SPEC, shared=True, namespace=CONFIG_NAMESPACE),
        Output(kinds.ADDRESS_SPEC, shared=True, namespace=CONFIG_NAMESPACE),
        Output(kinds.ROUTE_SPEC, shared=True, namespace=CONFIG_NAMESPACE),
        Output(kinds.ROUTING_RULE_SPEC, shared=True, namespace=CONFIG_NAMESPACE),
        Output(kinds.NF_TABLES_CHAIN, shared=True),
        Output(kinds.KUBE_SPAN_PEER_STATUS),
    )

    def __init__(self, links: Links, clock: Callable[[], float] = time.time) -> None:
        self._links = links
        self._clock = clock

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await runtime.get_or_none(*ids.KUBE_SPAN_CONFIG)
        identity = await runtime.get_or_none(*ids.KUBE_SPAN_IDENTITY)
        is_on = config is not None and config.spec.enabled and identity is not None
        self.interval = INTERVAL if is_on else math.inf
        async with runtime.track_outputs():
            if config is not None and identity is not None and is_on:
                await self._write(runtime, config.spec, identity.spec)

    async def _write(self, runtime: ControllerRuntime, config: ConfigSpec, identity: IdentitySpec) -> None:
        peers = {one.id: one.spec for one in await runtime.list(kinds.KUBE_SPAN_PEER_SPEC)}
        seen = await self._read_peers()
        endpoints: dict[str, NetIPPort | None] = {}
        routed: list[PeerSpecSpec] = []
        for key, peer in peers.items():
            last = await runtime.get_or_none(kinds.KUBE_SPAN_PEER_STATUS, key)
            here = seen.get(key, KernelPeer())
            status = find_status(peer, last.spec if last else PeerStatusSpec(), here, self._clock())
            endpoints[key] = find_endpoint(status, here)
            if config.force_routing or status.state == enums.PEER_STATE_UP:
                routed.append(peer)
            await runtime.put(kinds.KUBE_SPAN_PEER_STATUS, key, status)
        await self._write_specs(runtime, config, identity)
        link = make_link(config, identity, peers, endpoints)
        await runtime.put(kinds.LINK_SPEC, layered_id(_LAYER, LINK), link, namespace=CONFIG_NAMESPACE)
        for name, chain in make_chains(config, routed).items():
            await runtime.put(kinds.NF_TABLES_CHAIN, name, chain)

    async def _write_specs(
        self, runtime: ControllerRuntime, config: ConfigSpec, identity: IdentitySpec
    ) -> None:
        """What does not depend on the peers."""
        name = f"{LINK}/{parse_interface(identity.address)}"
        await runtime.put(
            kinds.ADDRESS_SPEC,
            layered_id(_LAYER, name),
            make_own_address(identity),
            namespace=CONFIG_NAMESPACE,
        )
        for route in make_routes(config):
            await runtime.put(
                kinds.ROUTE_SPEC, layered_id(_LAYER, route_spec_id(route)), route, namespace=CONFIG_NAMESPACE
            )
        for rule in make_rules():
            rule_id = layered_id(_LAYER, make_rule_id(rule.family, rule.priority))
            await runtime.put(kinds.ROUTING_RULE_SPEC, rule_id, rule, namespace=CONFIG_NAMESPACE)

    async def _read_peers(self) -> dict[str, KernelPeer]:
        """What the kernel has, by public key: nothing before the link is made."""
        try:
            state = await self._links.wireguard(LINK)
        except LinkError:
            return {}
        return {
            peer.public_key: make_kernel_peer(peer, state.traffic.get(peer.public_key))
            for peer in state.peers
        }
