"""Chains and their rules as the kernel has them: for which family, with which expressions, to which end."""

from ipaddress import ip_address, ip_interface
from typing import Any, cast

import pytest

from talos.api.addresses import make_prefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import (
    NfTablesAddressMatch,
    NfTablesChainSpec,
    NfTablesClampMSS,
    NfTablesConntrackStateMatch,
    NfTablesICMPTypeMatch,
    NfTablesIfNameMatch,
    NfTablesLayer4Match,
    NfTablesLimitMatch,
    NfTablesMark,
    NfTablesPortMatch,
    NfTablesRule,
    PortRange,
)
from talos.networkd.packet_filter import find_ranges, make_chain, make_rules
from talos.system.net import nft_expressions as nft
from talos.system.net.nft_expressions import Expression, Lookup, Members
from talos.system.net.nftables import Chain

TCP, ICMP, ICMPV6 = enums.PROTOCOL_TCP, enums.PROTOCOL_ICMP, enums.PROTOCOL_ICM_PV6
ACCEPT, DROP = nft.decide(nft.ACCEPT), nft.decide(nft.DROP)
NEW, ESTABLISHED = enums.CONNTRACK_STATE_NEW, enums.CONNTRACK_STATE_ESTABLISHED
ALL = "0.0.0.0/0"
TEN = (10 << 24, (11 << 24) - 1)
"""10.0.0.0/8."""
ULA = (0xFD << 120, (0xFE << 120) - 1)
"""fd00::/8."""
IPV4, IPV6 = nft.match_family(nft.IPV4), nft.match_family(nft.IPV6)


def find(type: int, size: int, *ranges: tuple[int, int], inverted: bool = False) -> Lookup:
    return Lookup(members=Members(ranges=ranges, size=size, type=type), inverted=inverted)


def link(name: str) -> tuple[int, int]:
    number = int.from_bytes(name.encode().ljust(16, b"\0"))
    return number, number


def match(*include: str, exclude: str = "", invert: bool = False) -> NfTablesAddressMatch:
    return NfTablesAddressMatch(
        include_subnets=[make_prefix(ip_interface(text)) for text in include],
        exclude_subnets=[make_prefix(ip_interface(exclude))] if exclude else (),
        invert=invert,
    )


def ports(*ranges: tuple[int, int]) -> NfTablesPortMatch:
    return NfTablesPortMatch(ranges=[PortRange(lo=low, hi=high) for low, high in ranges])


def icmp(protocol: enums.NethelpersProtocol, *types: int) -> NfTablesRule:
    rule = NfTablesRule(match_layer4=NfTablesLayer4Match(protocol=protocol))
    rule.match_layer4.match_icmp_type.CopyFrom(NfTablesICMPTypeMatch(types=cast("Any", types)))
    return rule


from4 = nft.match_address(nft.IPV4, find(nft.TYPE_IPV4, 4, TEN), source=True)

RULES: dict[str, tuple[NfTablesRule, list[tuple[Expression, ...]]]] = {
    "all is accepted": (NfTablesRule(verdict=enums.VERDICT_ACCEPT), [(ACCEPT,)]),
    "all is dropped, and counted before": (NfTablesRule(anon_counter=True), [(nft.count(), DROP)]),
    "from links": (
        NfTablesRule(
            match_i_if_name=NfTablesIfNameMatch(interface_names=["lo", "eth0"], operator=enums.OPERATOR_EQUAL)
        ),
        [
            (
                *nft.match_link(nft.INPUT_LINK, find(nft.TYPE_LINK_NAME, 16, link("eth0"), link("lo"))),
                DROP,
            )
        ],
    ),
    "to other links": (
        NfTablesRule(
            match_o_if_name=NfTablesIfNameMatch(interface_names=["lo"], operator=enums.OPERATOR_NOT_EQUAL)
        ),
        [
            (
                *nft.match_link(nft.OUTPUT_LINK, find(nft.TYPE_LINK_NAME, 16, link("lo"), inverted=True)),
                DROP,
            )
        ],
    ),
    "with a mark": (
        NfTablesRule(match_mark=NfTablesMark(mask=0x60, xor=1, value=0x20)),
        [(*nft.match_mark(0x60, 1, 0x20), DROP)],
    ),
    "in states, one of which is there twice": (
        NfTablesRule(match_conntrack_state=NfTablesConntrackStateMatch(states=[NEW, ESTABLISHED, NEW])),
        [(*nft.match_states(10), DROP)],
    ),
    "of ports": (
        NfTablesRule(
            match_layer4=NfTablesLayer4Match(
                protocol=TCP,
                match_source_port=ports((7, 7)),
                match_destination_port=ports((90, 99), (80, 85), (86, 88), (95, 96)),
            )
        ),
        [
            (
                *nft.match_protocol(6),
                *nft.match_port(find(nft.TYPE_PORT, 2, (7, 7)), source=True),
                *nft.match_port(find(nft.TYPE_PORT, 2, (80, 88), (90, 99)), source=False),
                DROP,
            )
        ],
    ),
    "of all ports": (
        NfTablesRule(match_layer4=NfTablesLayer4Match(protocol=TCP, match_destination_port=ports())),
        [(*nft.match_protocol(6), DROP)],
    ),
    "from all ports": (
        NfTablesRule(match_layer4=NfTablesLayer4Match(protocol=TCP, match_source_port=ports())),
        [(*nft.match_protocol(6), DROP)],
    ),
    "of types of ICMP": (
        icmp(ICMP, 13, 14, 17),
        [
            (
                *nft.match_protocol(1),
                *nft.match_icmp_type(find(nft.TYPE_ICMP, 1, (13, 14), (17, 17))),
                DROP,
            )
        ],
    ),
    "of all types of ICMP": (icmp(ICMP), [(*nft.match_protocol(1), DROP)]),
    "of neighbours, which no router passes on": (
        icmp(ICMPV6, 133, 136),
        [
            (
                *nft.match_protocol(58),
                *nft.match_hop_limit(255),
                *nft.match_icmp_type(find(nft.TYPE_ICMP, 1, (133, 133), (136, 136))),
                DROP,
            )
        ],
    ),
    "of neighbours and of routers": (
        icmp(ICMPV6, 133, 134, 135, 136),
        [
            (
                *nft.match_protocol(58),
                *nft.match_hop_limit(255),
                *nft.match_icmp_type(find(nft.TYPE_ICMP, 1, (133, 136))),
                DROP,
            )
        ],
    ),
    "of neighbours and of pings": (
        icmp(ICMPV6, 128, 136),
        [
            (
                *nft.match_protocol(58),
                *nft.match_icmp_type(find(nft.TYPE_ICMP, 1, (128, 128), (136, 136))),
                DROP,
            )
        ],
    ),
    "of the same number in ICMP": (
        icmp(ICMP, 133),
        [(*nft.match_protocol(1), *nft.match_icmp_type(find(nft.TYPE_ICMP, 1, (133, 133))), DROP)],
    ),
    "few in a second": (
        NfTablesRule(
            match_limit=NfTablesLimitMatch(packet_rate_per_second=5),
            match_layer4=NfTablesLayer4Match(protocol=ICMP),
            anon_counter=True,
        ),
        [(*nft.match_protocol(1), nft.limit(5), nft.count(), DROP)],
    ),
    "from subnets of both families": (
        NfTablesRule(match_source_address=match("10.0.0.0/8", "fd00::/8")),
        [
            (*IPV4, *from4, DROP),
            (*IPV6, *nft.match_address(nft.IPV6, find(nft.TYPE_IPV6, 16, ULA), source=True), DROP),
        ],
    ),
    "from a subnet of one": (
        NfTablesRule(match_source_address=match("10.0.0.0/8")),
        [(*IPV4, *from4, DROP)],
    ),
    "from one subnet to another": (
        NfTablesRule(
            match_source_address=match("10.0.0.0/8"),
            match_destination_address=match("10.0.0.0/7", exclude="10.0.0.0/8", invert=True),
        ),
        [
            (
                *IPV4,
                *from4,
                *nft.match_address(
                    nft.IPV4,
                    find(nft.TYPE_IPV4, 4, (11 << 24, (12 << 24) - 1), inverted=True),
                    source=False,
                ),
                DROP,
            )
        ],
    ),
    "from all of a family": (NfTablesRule(match_source_address=match(ALL)), [(*IPV4, DROP)]),
    "from nowhere in a family": (
        NfTablesRule(match_source_address=match(ALL, invert=True)),
        [(*IPV6, DROP)],
    ),
    "from nowhere": (NfTablesRule(match_source_address=match()), []),
    "to all, with nothing left out": (
        NfTablesRule(match_destination_address=match(invert=True)),
        [(*IPV4, DROP), (*IPV6, DROP)],
    ),
    "a mark is set, and the packet goes on": (
        NfTablesRule(set_mark=NfTablesMark(mask=0xFF, xor=0x40), anon_counter=True),
        [(*nft.set_mark(0xFF, 0x40), nft.count())],
    ),
    "a mark is set, and the packet is accepted": (
        NfTablesRule(set_mark=NfTablesMark(mask=0xFF, xor=0x40), verdict=enums.VERDICT_ACCEPT),
        [(*nft.set_mark(0xFF, 0x40), ACCEPT)],
    ),
    "segments fit into the link with both headers": (
        NfTablesRule(clamp_mss=NfTablesClampMSS(mtu=1420)),
        [(*IPV4, *nft.clamp_segments(1380)), (*IPV6, *nft.clamp_segments(1360))],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_these_expressions(name: str) -> None:
    rule, expected = RULES[name]
    assert make_rules(rule) == expected


def test_a_chain_has_all_of_its_rules() -> None:
    spec = NfTablesChainSpec(
        type="filter",
        hook=enums.CHAIN_HOOK_INPUT,
        priority=enums.CHAIN_PRIORITY_MANGLE,
        policy=enums.VERDICT_ACCEPT,
        rules=[NfTablesRule(), NfTablesRule(match_source_address=match(invert=True))],
    )
    rules = ((DROP,), (*IPV4, DROP), (*IPV6, DROP))
    expected = Chain(name="ingress", type="filter", hook=1, priority=-150, policy=1, rules=rules)
    assert make_chain("ingress", spec) == expected


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["10.0.0.0/8"], [], ["10.0.0.0-10.255.255.255"]),
        (["10.0.0.0/9", "10.128.0.0/9"], [], ["10.0.0.0-10.255.255.255"]),
        (["10.0.0.0/8", "10.1.0.0/16"], [], ["10.0.0.0-10.255.255.255"]),
        (["10.0.2.0/24", "10.0.0.0/24"], [], ["10.0.0.0-10.0.0.255", "10.0.2.0-10.0.2.255"]),
        (["10.0.0.0/8"], ["10.0.0.0/9"], ["10.128.0.0-10.255.255.255"]),
        (["10.0.0.0/8"], ["10.128.0.0/9"], ["10.0.0.0-10.127.255.255"]),
        (["10.0.0.0/24"], ["10.0.0.5/32"], ["10.0.0.0-10.0.0.4", "10.0.0.6-10.0.0.255"]),
        (["10.0.0.0/24"], ["10.0.0.0/32"], ["10.0.0.1-10.0.0.255"]),
        (["10.0.0.0/24"], ["10.0.0.255/32"], ["10.0.0.0-10.0.0.254"]),
        (["10.0.0.0/31"], ["10.0.0.0/32"], ["10.0.0.1-10.0.0.1"]),
        (["10.0.0.0/24", "10.0.2.0/24"], ["10.0.0.0/16"], []),
        (["10.0.1.0/24"], ["10.0.0.0/24", "10.0.2.0/24"], ["10.0.1.0-10.0.1.255"]),
        (["10.0.4.0/24"], ["10.0.0.0/24", "10.0.9.0/24"], ["10.0.4.0-10.0.4.255"]),
        (["fd00::/64"], [], []),
        (["10.0.0.0/8"], ["::/0"], ["10.0.0.0-10.255.255.255"]),
        (["0.0.0.0/0"], ["0.0.0.0/1"], ["128.0.0.0-255.255.255.255"]),
    ],
)
def test_subnets_as_ranges(include: list[str], exclude: list[str], expected: list[str]) -> None:
    prefixes = [[make_prefix(ip_interface(text)) for text in texts] for texts in (include, exclude)]
    found = find_ranges(prefixes[0], prefixes[1], nft.IPV4)
    assert ["-".join(str(ip_address(number)) for number in bounds) for bounds in found] == expected
