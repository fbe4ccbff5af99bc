"""What a peer is sent of a table, and how often."""

from ipaddress import IPv4Address, ip_network

from talos.bgpd.messages.open_message import Agreement
from talos.bgpd.messages.prefixes import Family, Network
from talos.bgpd.rib.announcer import Announcer
from talos.bgpd.rib.exports import ExportContext
from talos.bgpd.rib.table import Rib

AGREEMENT = Agreement(
    peer_asn=65000,
    router_id=IPv4Address("10.0.0.1"),
    hold_time=90,
    families=frozenset({Family.IPV4}),
    has_four_bytes=True,
    has_extended_next_hop=True,
    is_internal=False,
)
CONTEXT = ExportContext(
    agreement=AGREEMENT,
    local_asn=65001,
    replaces_peer=False,
    ipv4=IPv4Address("10.0.0.2"),
    ipv6=None,
    is_over_ipv6=False,
)
NETWORKS: frozenset[Network] = frozenset({ip_network("192.0.2.0/24"), ip_network("198.51.100.0/24")})


class CountedRib(Rib):
    """A table that counts how often it is listed."""

    lists = 0

    def list_exports(self) -> frozenset[Network]:
        self.lists += 1
        return frozenset(super().list_exports())


def test_many_requests_for_everything_are_one() -> None:
    rib = CountedRib()
    rib.set_own(NETWORKS, frozenset())
    announcer = Announcer(rib, CONTEXT)
    first = list(announcer.take())
    assert len(first) == 2  # the routes, and their end
    rib.lists = 0
    for _ in range(100):
        announcer.refresh()
    assert list(announcer.take()) == first[:1]
    assert rib.lists == 1
    assert not list(announcer.take())
