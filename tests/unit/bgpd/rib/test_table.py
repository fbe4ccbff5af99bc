"""The table of routes: which path is the best, what is refused, what is announced."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest

from talos.bgpd.messages.as_paths import AS_SEQUENCE, Segment
from talos.bgpd.messages.attributes import Attributes, UnrecognizedAttribute
from talos.bgpd.messages.prefixes import Network
from talos.bgpd.messages.update import NextHop, Update
from talos.bgpd.rib.imports import find_imports
from talos.bgpd.rib.paths import Source
from talos.bgpd.rib.table import MAX_BYTES, MAX_PREFIXES, PrefixLimitError, Rib
from talos.bgpd.settings import ImportSettings

NETWORK: Network = ip_network("192.0.2.0/24")
ONE = Source(
    number=1,
    address=IPv4Address("10.0.0.1"),
    router_id=IPv4Address("10.0.0.1"),
    is_internal=False,
    asns=frozenset({65001}),
)
TWO = replace(ONE, number=2, address=IPv4Address("10.0.0.2"), router_id=IPv4Address("10.0.0.2"))


def path(*numbers: int) -> Attributes:
    return Attributes(as_path=(Segment(AS_SEQUENCE, numbers),))


def announce(rib: Rib, source: Source, attributes: Attributes, *networks: Network, hop: str = "") -> None:
    next_hop = NextHop(address=IPv4Address(hop) if hop else source.address)  # type: ignore[arg-type]
    rib.apply(source, Update(announced=((next_hop, networks or (NETWORK,)),), attributes=attributes))


def make_rib() -> Rib:
    rib = Rib()
    rib.add_source(ONE)
    rib.add_source(TWO)
    return rib


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (path(1, 2), path(3)),
        (replace(path(1), origin=2), path(3)),
        (replace(path(1), local_pref=99), path(3, 4, 5)),
        (replace(path(1), med=7), replace(path(1), med=6)),
    ],
)
def test_the_better_path_is_the_best(worse: Attributes, better: Attributes) -> None:
    rib = make_rib()
    announce(rib, ONE, worse)
    announce(rib, TWO, better)
    assert [found.source for found in rib.find_installed(NETWORK)] == [TWO]


def test_equal_paths_are_ordered_by_the_peer() -> None:
    rib = make_rib()
    announce(rib, TWO, replace(path(5), med=9))
    announce(rib, ONE, path(6))
    assert [found.source for found in rib.find_installed(NETWORK)] == [ONE, TWO]
    rib.remove_source(ONE)
    assert [found.source for found in rib.find_installed(NETWORK)] == [TWO]


def test_loops_and_own_next_hops_are_received_and_not_accepted() -> None:
    rib = make_rib()
    rib.set_own(frozenset(), frozenset({IPv4Address("10.0.0.9")}))
    announce(rib, ONE, path(7, 65001))
    announce(rib, ONE, path(7), ip_network("198.51.100.0/24"), hop="10.0.0.9")
    assert rib.count(ONE) == (2, 0)
    rib.apply(ONE, Update(withdrawn=(NETWORK,)))
    assert rib.count(ONE) == (1, 0)


def test_more_prefixes_than_a_peer_may_announce_are_an_error() -> None:
    networks = [ip_network(f"10.{at // 256}.{at % 256}.0/24") for at in range(MAX_PREFIXES + 1)]
    rib = make_rib()
    announce(rib, ONE, path(7), *networks[:-1])
    with pytest.raises(PrefixLimitError):
        announce(rib, ONE, path(7), networks[-1])


def test_paths_of_more_bytes_than_a_peer_has_are_an_error() -> None:
    numbers = tuple(range(1000, 1255))
    networks = [ip_network(f"10.{at // 256}.{at % 256}.0/24") for at in range(MAX_BYTES // (36 * 255) + 1)]
    rib = make_rib()
    announce(rib, ONE, path(*numbers), *networks[:-1])
    for _ in range(2):  # what takes the place of another, or is withdrawn, takes nothing more
        announce(rib, ONE, path(*numbers), networks[0])
        rib.apply(ONE, Update(withdrawn=(networks[0],)))
        announce(rib, ONE, path(*numbers), networks[0])
    with pytest.raises(PrefixLimitError, match="paths of more than 8 MiB"):
        announce(rib, ONE, path(*numbers), networks[-1])


def test_own_networks_go_before_imported_ones_and_both_before_those_of_peers() -> None:
    source, rib = make_rib(), make_rib()
    inside: Network = ip_network("192.0.2.128/25")
    communities = replace(path(64512), unrecognized=(UnrecognizedAttribute(0xC0, 8, b"\0\1\0\2"),))
    announce(source, ONE, communities, NETWORK, inside, ip_network("198.51.100.0/24"))
    selectors = ImportSettings(instance="workload", networks=(NETWORK,))
    rib.set_own(frozenset({inside}), frozenset())
    rib.set_imported(find_imports([selectors], {"workload": source}))
    announce(rib, TWO, path(5), NETWORK)
    assert rib.find_export(NETWORK) == communities
    assert rib.find_export(inside) == Attributes()
    assert set(rib.list_exports()) == {NETWORK, inside}
    assert not rib.find_installed(NETWORK)
    assert not find_imports([replace(selectors, instance="fabric")], {"fabric": rib})
