"""The chains of the ingress firewall, rule by rule in the order of the API's public definition.

Both begin with the trusted links. ``ingress`` sees what is for this node or its containers behind port
mappings; ``prerouting`` sees it before Kubernetes' services send it elsewhere, so that a node port is subject
to the rules, too.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_interface
from typing import cast

from talos.api.addresses import make_host_prefix, make_prefix
from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    NfTablesAddressMatch,
    NfTablesChainSpec,
    NfTablesConntrackStateMatch,
    NfTablesICMPTypeMatch,
    NfTablesIfNameMatch,
    NfTablesLayer4Match,
    NfTablesLimitMatch,
    NfTablesPortMatch,
    NfTablesRule,
    PortRange,
)
from talos.config.contract import HOST_DNS_FOR_PODS, SIDEROLINK_LINK
from talos.config.documents.network.network_default_action import NetworkDefaultActionConfig
from talos.config.documents.network.network_rule import NetworkRuleConfig
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import network as effective_network
from talos.config.model import Config
from talos.networkd.packet_filter import NEIGHBOUR_DISCOVERY
from talos.resource.addresses import number
from talos.system.net.links import Interface

INGRESS, PREROUTING = "ingress", "prerouting"
TRUSTED_LINKS = ("lo", SIDEROLINK_LINK, "kubespan")
ICMP_PER_SECOND = 5
_DNS_PORT = 53
_PROTOCOLS = {
    "tcp": enums_pb2.PROTOCOL_TCP,
    "udp": enums_pb2.PROTOCOL_UDP,
    "icmp": enums_pb2.PROTOCOL_ICMP,
    "icmpv6": enums_pb2.PROTOCOL_ICM_PV6,
}
_REFUSED_ICMP = (
    enums_pb2.ICMP_TYPE_TIMESTAMP_REQUEST,
    enums_pb2.ICMP_TYPE_TIMESTAMP_REPLY,
    enums_pb2.ICMP_TYPE_ADDRESS_MASK_REQUEST,
    enums_pb2.ICMP_TYPE_ADDRESS_MASK_REPLY,
)
"""They reveal the node's clock and network to any machine, CVE-1999-0524."""

_ACCEPT, _DROP = enums_pb2.VERDICT_ACCEPT, enums_pb2.VERDICT_DROP


def blocks_by_default(config: Config) -> bool:
    """Whether what no rule accepts is dropped."""
    document = config.find(NetworkDefaultActionConfig)
    return document is not None and document.ingress == "block"


def has_firewall(config: Config) -> bool:
    """Whether there is anything to filter."""
    return blocks_by_default(config) or any(True for _ in config.find_all(NetworkRuleConfig))


def make_ingress_chain(config: Config, trusted: Sequence[str] = TRUSTED_LINKS) -> NfTablesChainSpec:
    """What is for this node. Rules accept where the default drops, and drop all others where it accepts."""
    blocks = blocks_by_default(config)
    rules = [_make_trusted(trusted)]
    if blocks:
        rules += _make_blocking(config)
    rules += [_make_configured(rule, blocks=blocks) for rule in config.find_all(NetworkRuleConfig)]
    return NfTablesChainSpec(
        type="filter",
        hook=enums_pb2.CHAIN_HOOK_INPUT,
        priority=number(enums_pb2.CHAIN_PRIORITY_MANGLE + 10),
        policy=_DROP if blocks else _ACCEPT,
        rules=rules,
    )


def make_prerouting_chain(
    config: Config, addresses: Iterable[Interface], trusted: Sequence[str] = TRUSTED_LINKS
) -> NfTablesChainSpec:
    """New connections to this node's own addresses, before they are redirected."""
    blocks = blocks_by_default(config)
    own = [_host(address) for address in addresses]
    foreign = _rule(_ACCEPT)
    foreign.match_destination_address.CopyFrom(NfTablesAddressMatch(include_subnets=own, invert=True))
    rules = [_make_trusted(trusted), foreign]
    for document in config.find_all(NetworkRuleConfig):
        rule = _make_configured(document, blocks=blocks)
        rule.match_conntrack_state.states.append(enums_pb2.CONNTRACK_STATE_NEW)
        rules.append(rule)
    if blocks:
        for protocol in (enums_pb2.PROTOCOL_TCP, enums_pb2.PROTOCOL_UDP):
            rule = _rule(_DROP, layer4=NfTablesLayer4Match(protocol=protocol))
            rule.match_conntrack_state.states.append(enums_pb2.CONNTRACK_STATE_NEW)
            rules.append(rule)
    return NfTablesChainSpec(
        type="filter",
        hook=enums_pb2.CHAIN_HOOK_PREROUTING,
        priority=number(enums_pb2.CHAIN_PRIORITY_NAT_DEST - 10),
        policy=_ACCEPT,
        rules=rules,
    )


def _make_blocking(config: Config) -> list[NfTablesRule]:
    """What is accepted, or dropped, whatever the config's rules are, when the default is to block."""
    known = NfTablesConntrackStateMatch(
        states=[enums_pb2.CONNTRACK_STATE_ESTABLISHED, enums_pb2.CONNTRACK_STATE_RELATED]
    )
    invalid = NfTablesConntrackStateMatch(states=[enums_pb2.CONNTRACK_STATE_INVALID])
    refused = NfTablesICMPTypeMatch(types=_REFUSED_ICMP)
    rules = [
        _rule(_ACCEPT, states=known),
        _rule(_DROP, states=invalid),
        _rule(
            _DROP,
            layer4=NfTablesLayer4Match(protocol=enums_pb2.PROTOCOL_ICMP, match_icmp_type=refused),
        ),
    ]
    # Outside of the limit: without it a flood of pings ends IPv6, as no neighbour is found any more.
    kinds = cast("Sequence[enums_pb2.NethelpersICMPType]", NEIGHBOUR_DISCOVERY)  # the enum has few of them
    discovery = NfTablesICMPTypeMatch(types=kinds)
    neighbours = NfTablesLayer4Match(protocol=enums_pb2.PROTOCOL_ICM_PV6, match_icmp_type=discovery)
    rules.append(_rule(_ACCEPT, layer4=neighbours))
    for protocol in (enums_pb2.PROTOCOL_ICMP, enums_pb2.PROTOCOL_ICM_PV6):
        rule = _rule(_ACCEPT, layer4=NfTablesLayer4Match(protocol=protocol))
        rule.match_limit.CopyFrom(NfTablesLimitMatch(packet_rate_per_second=ICMP_PER_SECOND))
        rules.append(rule)
    networks = (*effective_cluster.pod_subnets(config), *effective_cluster.service_subnets(config))
    inside = [_prefix(text) for text in networks]
    host_dns = effective_network.host_dns(config)
    if host_dns is not None and host_dns.forward_kube_dns_to_host:
        ports = NfTablesPortMatch(ranges=[PortRange(lo=_DNS_PORT, hi=_DNS_PORT)])
        for protocol in (enums_pb2.PROTOCOL_UDP, enums_pb2.PROTOCOL_TCP):
            rule = _rule(_ACCEPT, layer4=NfTablesLayer4Match(protocol=protocol, match_destination_port=ports))
            rule.match_source_address.include_subnets.extend(inside)
            rule.match_destination_address.include_subnets.extend(map(_prefix, HOST_DNS_FOR_PODS))
            rules.append(rule)
    if inside:
        rule = _rule(_ACCEPT)
        rule.match_source_address.include_subnets.extend(inside)
        rule.match_destination_address.include_subnets.extend(inside)
        rules.append(rule)
    return rules


def _make_configured(document: NetworkRuleConfig, *, blocks: bool) -> NfTablesRule:
    selector = document.port_selector
    ranges = sorted(map(_port_range, (selector and selector.ports) or ()), key=lambda item: item.lo)
    layer4 = NfTablesLayer4Match(protocol=_PROTOCOLS[(selector and selector.protocol) or "tcp"])
    if ranges:
        layer4.match_destination_port.ranges.extend(ranges)
    rule = _rule(_ACCEPT if blocks else _DROP, layer4=layer4)
    senders = rule.match_source_address
    senders.invert = not blocks
    for sender in document.ingress or ():
        if sender.subnet:
            senders.include_subnets.append(_prefix(sender.subnet))
        if sender.except_:
            senders.exclude_subnets.append(_prefix(sender.except_))
    return rule


def _make_trusted(links: Sequence[str]) -> NfTablesRule:
    rule = _rule(_ACCEPT)
    rule.match_i_if_name.CopyFrom(
        NfTablesIfNameMatch(interface_names=links, operator=enums_pb2.OPERATOR_EQUAL)
    )
    return rule


def _rule(
    verdict: enums_pb2.NethelpersNfTablesVerdict,
    *,
    states: NfTablesConntrackStateMatch | None = None,
    layer4: NfTablesLayer4Match | None = None,
) -> NfTablesRule:
    return NfTablesRule(verdict=verdict, anon_counter=True, match_conntrack_state=states, match_layer4=layer4)


def _port_range(text: str) -> PortRange:
    low, _, high = text.partition("-")
    return PortRange(lo=int(low), hi=int(high or low))


def _prefix(text: str) -> NetIPPrefix:
    return make_prefix(ip_interface(text))


def _host(address: Interface) -> NetIPPrefix:
    return make_host_prefix(address.ip)
