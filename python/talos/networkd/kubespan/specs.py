"""KubeSpan as network specs: the link, its address, routes by a packet's mark, and what marks packets.

WireGuard's own packets carry :data:`LINK_MARK`, so that they take the ordinary routes. Packets to a peer's
addresses get :data:`ROUTE_MARK`, for which a table has nothing but the link.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Interface, ip_address

from google.protobuf.duration_pb2 import Duration

from talos.api.common.common_pb2 import NetIPPort, NetIPPrefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec, PeerSpecSpec
from talos.api.definitions.network_pb2 import (
    AddressSpecSpec,
    LinkSpecSpec,
    NfTablesAddressMatch,
    NfTablesChainSpec,
    NfTablesClampMSS,
    NfTablesIfNameMatch,
    NfTablesMark,
    NfTablesRule,
    RouteSpecSpec,
    RoutingRuleSpecSpec,
    WireguardPeer,
    WireguardSpec,
)
from talos.config.contract import KUBE_SPAN_PORT
from talos.networkd.spec_makers import make_address
from talos.networkd.wireguard import format_endpoint
from talos.resource.addresses import number
from talos.rpc.port.addresses import is_kubespan

LINK = "kubespan"
TABLE, ROUTE_PRIORITY, RULE_PRIORITY = 180, 1, 32500
MARK_MASK, LINK_MARK, ROUTE_MARK = 0x60, 0x20, 0x40
PREROUTING, OUTGOING = "kubespan_prerouting", "kubespan_outgoing"
KEEPALIVE = 25
"""Seconds: within what routers with address translation remember a sender."""
_ROUTE_BITS = 64
"""Of the address: the route to its network reaches the other nodes' without a mark."""
_LAYER = enums.CONFIG_OPERATOR
_FAMILIES = (enums.FAMILY_INET4, enums.FAMILY_INET6)
_MARK_ROUTE = NfTablesMark(mask=~MARK_MASK & 0xFFFFFFFF, xor=ROUTE_MARK)


def make_link(
    config: ConfigSpec,
    identity: IdentitySpec,
    peers: Mapping[str, PeerSpecSpec],
    endpoints: Mapping[str, NetIPPort | None],
) -> LinkSpecSpec:
    """The tunnel; ``endpoints`` by public key, None to leave the kernel's."""
    wireguard = WireguardSpec(
        private_key=identity.private_key, listen_port=KUBE_SPAN_PORT, firewall_mark=LINK_MARK
    )
    for key, peer in peers.items():
        endpoint = endpoints.get(key)
        wireguard.peers.add().CopyFrom(
            WireguardPeer(
                public_key=key,
                preshared_key=config.shared_secret,
                endpoint=format_endpoint((ip_address(endpoint.ip), endpoint.port)) if endpoint else "",
                persistent_keepalive_interval=Duration(seconds=KEEPALIVE),
                allowed_ips=peer.allowed_ips,
            )
        )
    return LinkSpecSpec(
        name=LINK,
        logical=True,
        up=True,
        mtu=config.mtu,
        kind="wireguard",
        type=enums.LINK_NONE,
        wireguard=wireguard,
        config_layer=_LAYER,
    )


def make_own_address(identity: IdentitySpec) -> AddressSpecSpec:
    """The node's address in KubeSpan."""
    return make_address(LINK, IPv6Interface((identity.address.ip, _ROUTE_BITS)), _LAYER)


def make_routes(config: ConfigSpec) -> list[RouteSpecSpec]:
    """The table that leads into the tunnel."""
    return [
        RouteSpecSpec(
            family=family,
            out_link_name=LINK,
            table=number(TABLE),
            priority=ROUTE_PRIORITY,
            scope=enums.SCOPE_GLOBAL,
            type=enums.TYPE_UNICAST,
            protocol=enums.PROTOCOL_STATIC,
            mtu=config.mtu,
            config_layer=_LAYER,
        )
        for family in _FAMILIES
    ]


def make_rules() -> list[RoutingRuleSpecSpec]:
    """Which packets that table is for."""
    return [
        RoutingRuleSpecSpec(
            family=family,
            table=number(TABLE),
            priority=RULE_PRIORITY,
            action=enums.ROUTING_RULE_ACTION_UNICAST,
            fw_mark=ROUTE_MARK,
            fw_mask=MARK_MASK,
            config_layer=_LAYER,
        )
        for family in _FAMILIES
    ]


def make_chains(config: ConfigSpec, peers: Iterable[PeerSpecSpec]) -> dict[str, NfTablesChainSpec]:
    """What marks packets to these peers, those of containers and the node's own."""
    tunnelled = NfTablesRule(
        match_mark=NfTablesMark(mask=MARK_MASK, value=LINK_MARK), verdict=enums.VERDICT_ACCEPT
    )
    local = NfTablesRule(
        match_o_if_name=NfTablesIfNameMatch(interface_names=["lo"], operator=enums.OPERATOR_EQUAL),
        verdict=enums.VERDICT_ACCEPT,
    )
    targets = NfTablesAddressMatch(include_subnets=_find_targets(peers))
    marking: list[NfTablesRule] = []
    clamping: list[NfTablesRule] = []
    if targets.include_subnets:
        marking.append(
            NfTablesRule(
                match_destination_address=targets, set_mark=_MARK_ROUTE, verdict=enums.VERDICT_ACCEPT
            )
        )
        clamping.append(
            NfTablesRule(match_destination_address=targets, clamp_mss=NfTablesClampMSS(mtu=config.mtu))
        )
    return {
        PREROUTING: NfTablesChainSpec(
            type="filter",
            hook=enums.CHAIN_HOOK_PREROUTING,
            priority=enums.CHAIN_PRIORITY_FILTER,
            policy=enums.VERDICT_ACCEPT,
            rules=[tunnelled, *marking],
        ),
        # A chain of the type route looks for the route anew when the mark has changed.
        OUTGOING: NfTablesChainSpec(
            type="route",
            hook=enums.CHAIN_HOOK_OUTPUT,
            priority=enums.CHAIN_PRIORITY_FILTER,
            policy=enums.VERDICT_ACCEPT,
            rules=[tunnelled, local, *clamping, *marking],
        ),
    }


def _find_targets(peers: Iterable[PeerSpecSpec]) -> list[NetIPPrefix]:
    """Addresses beside those in KubeSpan, which have a route without a mark, in order."""
    found = {
        (len(prefix.ip), prefix.ip, prefix.prefix_length)
        for peer in peers
        for prefix in peer.allowed_ips
        if not is_kubespan(ip_address(prefix.ip))
    }
    return [NetIPPrefix(ip=ip, prefix_length=length) for _, ip, length in sorted(found)]
