"""UPDATE: what is sent is read again; what is malformed ends the session or withdraws routes (RFC 7606)."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest

from talos.bgpd.messages.as_paths import AS_SEQUENCE, Segment
from talos.bgpd.messages.attributes import Attributes, UnrecognizedAttribute
from talos.bgpd.messages.notification import BgpError
from talos.bgpd.messages.open_message import Agreement
from talos.bgpd.messages.prefixes import Family, Network
from talos.bgpd.messages.update import (
    make_announcements,
    make_end_of_rib,
    make_withdrawals,
    parse_update,
)

AGREEMENT = Agreement(
    peer_asn=65000,
    router_id=IPv4Address("10.0.0.1"),
    hold_time=90,
    families=frozenset(Family),
    has_four_bytes=True,
    has_extended_next_hop=True,
    is_internal=False,
)
PATH = (Segment(AS_SEQUENCE, (65000, 4200000001)),)
ATTRIBUTES = Attributes(as_path=PATH, med=7, unrecognized=(UnrecognizedAttribute(0xC0, 8, bytes(range(8))),))
NETWORKS: tuple[Network, ...] = tuple(ip_network(f"10.{at // 256}.{at % 256}.0/24") for at in range(3000))


@pytest.mark.parametrize("width", [2, 4])
def test_many_networks_go_in_several_messages(width: int) -> None:
    agreement = replace(AGREEMENT, has_four_bytes=width == 4)
    bodies = list(make_announcements(NETWORKS, ATTRIBUTES, IPv4Address("10.0.0.9"), width=width))
    assert max(map(len, bodies)) <= 4096 - 19
    updates = [parse_update(body, agreement) for body in bodies]
    assert {update.attributes for update in updates} == {ATTRIBUTES}
    assert [one for update in updates for _, networks in update.announced for one in networks] == list(
        NETWORKS
    )


@pytest.mark.parametrize("text", ["192.0.2.0/25", "0.0.0.0/0", "2001:db8::/33", "::/0"])
def test_a_next_hop_of_ipv6_for_both_families(text: str) -> None:
    hop = IPv6Address("fe80::1")
    [body] = make_announcements([ip_network(text)], ATTRIBUTES, hop, width=4)
    update = parse_update(body, AGREEMENT)
    [(next_hop, networks)] = update.announced
    assert (next_hop.address, next_hop.link_local, networks) == (hop, hop, (ip_network(text),))
    [gone] = make_withdrawals([ip_network(text)])
    assert parse_update(gone, AGREEMENT).withdrawn == (ip_network(text),)


def test_the_end_of_a_table_changes_nothing() -> None:
    for family in Family:
        assert parse_update(make_end_of_rib(family), AGREEMENT) == parse_update(bytes(4), AGREEMENT)


def body_of(attributes: str, networks: str = "18c00002") -> bytes:
    listed = bytes.fromhex(attributes)
    return bytes(2) + len(listed).to_bytes(2) + listed + bytes.fromhex(networks)


ORIGIN, AS_PATH, NEXT_HOP = "40010100", "400206020100000001", "4003040a000001"


@pytest.mark.parametrize(
    "attributes",
    [
        AS_PATH + NEXT_HOP,
        ORIGIN + NEXT_HOP,
        ORIGIN + AS_PATH,
        "40010103" + AS_PATH + NEXT_HOP,
        "80010100" + AS_PATH + NEXT_HOP,
        ORIGIN + "400206030100000001" + NEXT_HOP,
        ORIGIN + "400206020100000000" + NEXT_HOP,
        ORIGIN + "40020402010001" + NEXT_HOP,
        ORIGIN + AS_PATH + "4003030a0000",
        ORIGIN + AS_PATH + NEXT_HOP + "80040100",
        ORIGIN + AS_PATH + NEXT_HOP + "c00803010203",
        ORIGIN + AS_PATH + NEXT_HOP + "c0",
    ],
)
def test_a_malformed_attribute_withdraws_the_routes(attributes: str) -> None:
    update = parse_update(body_of(attributes), AGREEMENT)
    assert update.withdrawn == (ip_network("192.0.2.0/24"),)
    assert update.problem
    assert not update.announced


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\0\5\0\0\0", "malformed attribute list"),
        (body_of("", "21c0000200"), "invalid network field"),
        (body_of("", "18c0"), "invalid network field"),
        (body_of("800e0400020110"), "optional attribute error"),
        (body_of("800f020002"), "optional attribute error"),
        (body_of("800f03000201800f03000201"), "malformed attribute list"),
        (body_of(ORIGIN + AS_PATH + NEXT_HOP + "40630100"), "unrecognized well-known attribute"),
    ],
)
def test_what_nothing_can_be_made_of_ends_the_session(body: bytes, shown: str) -> None:
    with pytest.raises(BgpError, match=shown):
        parse_update(body, AGREEMENT)


def test_a_malformed_aggregator_is_left_out() -> None:
    update = parse_update(body_of(ORIGIN + AS_PATH + NEXT_HOP + "c00703010203"), AGREEMENT)
    assert update.attributes is not None
    assert update.attributes.unrecognized == ()
