"""What machines of the network send: a packet is accepted, or refused in the one way it may be, and soon."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from tests.unit.bgpd.messages.test_update import ATTRIBUTES
from tests.unit.bgpd.rib.test_table import ONE as SOURCE
from tests.unit.bgpd.test_session import join, make_session
from tests.unit.dnsd.server import make_authority, make_question, make_record, make_reply
from tests.unit.networkd.dhcp6.test_client import DUID, address, answer, association, option, status

from talos.bgpd.bfd.packet import parse_packet
from talos.bgpd.messages.framing import Kind as BgpKind
from talos.bgpd.messages.framing import make_message
from talos.bgpd.messages.update import Update, make_announcements, make_withdrawals
from talos.bgpd.rib.table import Rib
from talos.dnsd.message import MalformedError, make_answer, make_query, parse_query, parse_reply
from talos.dnsd.probes.records import read_records
from talos.dnsd.upstream import parse_http_head
from talos.networkd.dhcp6.message import Kind, parse_message
from talos.networkd.dhcp6.options import UnusableReplyError
from talos.system.net.arp import make_arp, parse_arp
from talos.system.net.echo import parse_sequence

from .trial import Parser, check_parser

QUESTION = make_question("a.example")


def parse_dns(data: bytes) -> None:
    """An answer as clients get it: aged, and on a connection or cut to what they take."""
    query = parse_query(QUESTION)
    reply = parse_reply(data, query, query.id)
    for limit in (512, 65535):
        assert len(make_answer(query, reply, 5, limit)) <= limit
    make_answer(parse_query(make_question("a.example", edns=True)), reply, 0, 1232)


def make_dhcp6(kind: Kind, *options: bytes) -> bytes:
    return answer(kind, b"abc", *options)


BGP_OPEN = make_session(4200000001, 0).take_outgoing()
BGP_UPDATES = [
    *make_announcements([ip_network("10.0.0.0/9")], ATTRIBUTES, IPv4Address(9), width=4),
    *make_announcements([ip_network("2001:db8::/33")], ATTRIBUTES, IPv6Address("fe80::1"), width=4),
    *make_withdrawals([ip_network("10.0.0.0/9"), ip_network("2001:db8::/33")]),
]
BFD = bytes.fromhex("204003180000000900000000000f4240000f424000000000")


def receive_routes(data: bytes) -> None:
    """What a peer sends in an established session: it is taken into a table, or the session has an end."""
    session, peer = make_session(65001, 65000), make_session(65000, 65001)
    join(session, peer)
    rib = Rib()
    rib.add_source(SOURCE)
    for event in session.receive(data, 0.0):
        if isinstance(event, Update):
            rib.apply(SOURCE, event)
    for network in rib.list_learned():
        for path in rib.find_learned(network):
            own = IPv6Address(1) if network.version == 6 else IPv4Address(1)
            assert list(make_announcements([network], path.attributes, own, width=2))


PARSERS: Mapping[str, Parser] = {
    "DHCPv6": Parser(
        parse=lambda data: parse_message(data, transaction=b"abc", client=DUID, association=1),
        seeds=[
            make_dhcp6(
                Kind.REPLY, association(address(), address("fd00::2", 5)), option(23, bytes(15) + b"\1")
            ),
            make_dhcp6(
                Kind.ADVERTISE,
                association(address()),
                option(24, b"\1a\2bc\0"),
                option(39, b"\0\4node\0"),
            ),
            make_dhcp6(Kind.REPLY, association(status(2, "none")), option(56, option(3, b"\3ntp\0"))),
        ],
        refusals=(UnusableReplyError,),
    ),
    "question of DNS": Parser(
        parse=lambda data: make_query(parse_query(data), 7),
        seeds=[make_question("a.example"), make_question("b.example", 28, edns=True)],
        refusals=(MalformedError,),
    ),
    "answer of DNS": Parser(
        parse=parse_dns,
        seeds=[
            make_reply(QUESTION, make_record(bytes(4)), make_record(bytes(16), kind=28)),
            make_reply(QUESTION, code=3, authorities=[make_authority(60, 30)]),
            make_reply(QUESTION, make_record(b"\xc0\x1b", kind=5, name=b"\xc0\x1b")),
        ],
        refusals=(MalformedError,),
    ),
    "answer of DNS, its records": Parser(
        parse=read_records,
        seeds=[
            make_reply(QUESTION, make_record(bytes(4)), make_record(b"\1b\xc0\x0c", kind=5)),
            make_reply(QUESTION, make_record(b"\2ab\0", kind=16), make_record(bytes(7), kind=33)),
            make_reply(QUESTION, make_record(b"\0\5issuea", kind=257), authorities=[make_authority(60, 30)]),
        ],
        refusals=(MalformedError,),
    ),
    "answer of DNS over HTTP": Parser(
        parse=parse_http_head,
        seeds=[b"HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\nContent-Length: 45"],
        refusals=(MalformedError,),
    ),
    "BGP, the peer's OPEN": Parser(
        parse=lambda data: list(make_session(65001, 0).receive(data, 0.0)), seeds=[BGP_OPEN], refusals=()
    ),
    "BGP": Parser(
        parse=receive_routes,
        seeds=[make_message(BgpKind.UPDATE, body) for body in BGP_UPDATES]
        + [make_message(BgpKind.ROUTE_REFRESH, bytes(4))],
        refusals=(),
    ),
    "BFD": Parser(parse=parse_packet, seeds=[BFD], refusals=()),
    "ICMP echo": Parser(
        parse=lambda data: parse_sequence(data, 8), seeds=[bytes.fromhex("080012340001000261")], refusals=()
    ),
    "ARP": Parser(
        parse=parse_arp, seeds=[make_arp(1, bytes(6), IPv4Address(1), IPv4Address(2))], refusals=()
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_packet(name: str) -> None:
    check_parser(PARSERS[name])
