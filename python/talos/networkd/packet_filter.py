"""NfTablesChains as the kernel's chains: which expressions a rule consists of, for IPv4 and for IPv6."""

from collections.abc import Iterable

from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    NfTablesAddressMatch,
    NfTablesChainSpec,
    NfTablesIfNameMatch,
    NfTablesLayer4Match,
    NfTablesPortMatch,
    NfTablesRule,
)
from talos.resource.addresses import parse_interface
from talos.system.net import nft_expressions as nft
from talos.system.net.nft_expressions import Expression, Lookup, Members
from talos.system.net.nftables import Chain

_BITS = {nft.IPV4: 32, nft.IPV6: 128}
_HEADERS = {nft.IPV4: 40, nft.IPV6: 60}
"""Bytes of the headers of IP and TCP together."""

type Ranges = tuple[tuple[int, int], ...]
NEIGHBOUR_DISCOVERY = (133, 134, 135, 136)
"""ICMPv6: solicitations and advertisements of routers and neighbours, RFC 4861 section 4."""
_LOCAL_HOP_LIMIT = 255
"""Of every valid one, so that it is from the link (sections 6.1 and 7.1)."""


def make_chain(name: str, spec: NfTablesChainSpec) -> Chain:
    """A chain with its rules."""
    return Chain(
        name=name,
        type=spec.type,
        hook=int(spec.hook),
        priority=int(spec.priority),
        policy=int(spec.policy),
        rules=tuple(rule for item in spec.rules for rule in make_rules(item)),
    )


def make_rules(rule: NfTablesRule) -> list[tuple[Expression, ...]]:
    """The rules of the kernel: one for each version of IP where it matters, none where nothing can match."""
    head: list[Expression] = []
    if rule.HasField("match_i_if_name"):
        head += _match_link(nft.INPUT_LINK, rule.match_i_if_name)
    if rule.HasField("match_o_if_name"):
        head += _match_link(nft.OUTPUT_LINK, rule.match_o_if_name)
    if rule.HasField("match_mark"):
        head += nft.match_mark(rule.match_mark.mask, rule.match_mark.xor, rule.match_mark.value)
    if rule.HasField("match_conntrack_state"):
        head += nft.match_states(sum({int(state) for state in rule.match_conntrack_state.states}))
    tail = _make_tail(rule)
    has_addresses = rule.HasField("match_source_address") or rule.HasField("match_destination_address")
    if not has_addresses and not rule.HasField("clamp_mss"):
        return [(*head, *tail)]
    rules: list[tuple[Expression, ...]] = []
    for family in (nft.IPV4, nft.IPV6):
        addresses = _match_addresses(rule, family)
        if addresses is None:
            continue
        clamp = (
            nft.clamp_segments(rule.clamp_mss.mtu - _HEADERS[family]) if rule.HasField("clamp_mss") else ()
        )
        rules.append((*head, *nft.match_family(family), *addresses, *clamp, *tail))
    return rules


def find_ranges(include: Iterable[NetIPPrefix], exclude: Iterable[NetIPPrefix], family: int) -> Ranges:
    """The addresses of a family that are in a subnet of the first kind and in none of the second."""
    left: list[tuple[int, int]] = []
    for low, high in _merge(_subnets(include, family)):
        for cut_low, cut_high in _merge(_subnets(exclude, family)):
            if cut_high < low or cut_low > high:
                continue
            if cut_low > low:
                left.append((low, cut_low - 1))
            low = cut_high + 1
        if low <= high:
            left.append((low, high))
    return tuple(left)


def _make_tail(rule: NfTablesRule) -> list[Expression]:
    tail: list[Expression] = []
    if rule.HasField("match_layer4"):
        tail += _match_layer4(rule.match_layer4)
    if rule.HasField("match_limit"):
        tail.append(nft.limit(rule.match_limit.packet_rate_per_second))
    changes_packet = rule.HasField("set_mark") or rule.HasField("clamp_mss")
    if rule.HasField("set_mark"):
        tail += nft.set_mark(rule.set_mark.mask, rule.set_mark.xor)
    if rule.anon_counter:
        tail.append(nft.count())
    # "drop" is 0, which is no verdict as well: a rule that changes packets does not drop them.
    if rule.verdict == enums_pb2.VERDICT_ACCEPT or not changes_packet:
        tail.append(nft.decide(nft.ACCEPT if rule.verdict == enums_pb2.VERDICT_ACCEPT else nft.DROP))
    return tail


def _match_link(key: int, match: NfTablesIfNameMatch) -> Iterable[Expression]:
    size = nft.LINK_NAME_BYTES
    numbers = (int.from_bytes(name.encode().ljust(size, b"\0")) for name in match.interface_names)
    members = Members(
        ranges=_merge((number, number) for number in numbers), size=size, type=nft.TYPE_LINK_NAME
    )
    is_inverted = match.operator == enums_pb2.OPERATOR_NOT_EQUAL
    return nft.match_link(key, Lookup(members=members, inverted=is_inverted))


def _match_addresses(rule: NfTablesRule, family: int) -> list[Expression] | None:
    """The expressions; None when no packet of the family can match."""
    found: list[Expression] = []
    for name in ("match_source_address", "match_destination_address"):
        if not rule.HasField(name):
            continue
        match: NfTablesAddressMatch = getattr(rule, name)
        ranges = find_ranges(match.include_subnets, match.exclude_subnets, family)
        is_everything = ranges == ((0, (1 << _BITS[family]) - 1),)
        if (is_everything and match.invert) or not (ranges or match.invert):
            return None
        if is_everything or not ranges:
            continue
        kind = nft.TYPE_IPV4 if family == nft.IPV4 else nft.TYPE_IPV6
        members = Members(ranges=ranges, size=_BITS[family] // 8, type=kind)
        lookup = Lookup(members=members, inverted=match.invert)
        found += nft.match_address(family, lookup, source=name == "match_source_address")
    return found


def _match_layer4(match: NfTablesLayer4Match) -> list[Expression]:
    found: list[Expression] = [*nft.match_protocol(int(match.protocol))]
    if match.HasField("match_source_port") and match.match_source_port.ranges:
        found += nft.match_port(_ports(match.match_source_port), source=True)
    if match.HasField("match_destination_port") and match.match_destination_port.ranges:
        found += nft.match_port(_ports(match.match_destination_port), source=False)
    if match.HasField("match_icmp_type") and match.match_icmp_type.types:
        types = {int(number) for number in match.match_icmp_type.types}
        if match.protocol == enums_pb2.PROTOCOL_ICM_PV6 and types <= set(NEIGHBOUR_DISCOVERY):
            found += nft.match_hop_limit(_LOCAL_HOP_LIMIT)
        ranges = _merge((number, number) for number in types)
        found += nft.match_icmp_type(Lookup(members=Members(ranges=ranges, size=1, type=nft.TYPE_ICMP)))
    return found


def _ports(match: NfTablesPortMatch) -> Lookup:
    ranges = _merge((item.lo, item.hi) for item in match.ranges)
    return Lookup(members=Members(ranges=ranges, size=2, type=nft.TYPE_PORT))


def _subnets(prefixes: Iterable[NetIPPrefix], family: int) -> Iterable[tuple[int, int]]:
    for prefix in prefixes:
        network = parse_interface(prefix).network
        if network.max_prefixlen == _BITS[family]:
            yield int(network.network_address), int(network.broadcast_address)


def _merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order, those that touch as one."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return tuple(merged)
