"""Paths become routes of the kernel: gateways, links, tables, source addresses."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from tests.unit.bgpd.places import settle

from talos.api.addresses import make_ip
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import BGPInstanceConfigSpec, RouteSpecSpec
from talos.bgpd.messages.attributes import Attributes
from talos.bgpd.messages.prefixes import Network
from talos.bgpd.messages.update import NextHop
from talos.bgpd.rib.paths import Path, Source
from talos.bgpd.rib.routes import find_hop, make_id, make_route
from talos.bgpd.settings import InstanceSettings
from talos.resource.addresses import parse_ip

NETWORK: Network = ip_network("192.0.2.0/24")
DEFAULT: Network = ip_network("0.0.0.0/0")
ROUTER = ip_address("192.0.2.255")


def make_path(hop: str, *, link: str = "", link_local: str = "") -> Path:
    source = Source(
        number=1,
        address=ip_address(hop),
        router_id=IPv4Address("10.0.0.1"),
        is_internal=False,
        link=link,
    )
    next_hop = NextHop(address=ip_address(hop), link_local=IPv6Address(link_local) if link_local else None)
    return Path(source=source, next_hop=next_hop, attributes=Attributes())


def make_instance(*, is_multipath: bool = False, source: str = "") -> InstanceSettings:
    spec = BGPInstanceConfigSpec(router_id=make_ip(ROUTER), multipath=is_multipath)
    if source:
        spec.route_source.CopyFrom(make_ip(ip_address(source)))
    return settle(spec)


def make(network: Network, settings: InstanceSettings, *paths: Path) -> RouteSpecSpec:
    route = make_route(network, paths, settings)
    assert route is not None
    return route


def test_a_route_goes_by_the_gateway_on_its_link() -> None:
    route = make(NETWORK, make_instance(), make_path("10.0.0.1"), make_path("10.0.0.200"))
    assert (parse_ip(route.gateway), route.out_link_name) == (ip_address("10.0.0.1"), "eth0")
    assert (route.destination.ip, route.destination.prefix_length) == (NETWORK.network_address.packed, 24)
    assert (route.protocol, route.table) == (enums_pb2.PROTOCOL_BGP, enums_pb2.TABLE_MAIN)
    assert not route.next_hops, "one path is enough where the instance is not multipath"
    assert parse_ip(route.source) is None


def test_several_paths_are_one_route_whose_order_is_always_the_same() -> None:
    paths = [make_path("10.0.0.200"), make_path("10.0.0.1"), make_path("10.0.0.1")]
    settings = make_instance(is_multipath=True)
    route = make(NETWORK, settings, *paths)
    hops = [(str(parse_ip(hop.gateway)), hop.out_link_name, hop.weight) for hop in route.next_hops]
    assert hops == [("10.0.0.1", "eth0", 1), ("10.0.0.200", "eth1", 1)]
    assert make(NETWORK, settings, *reversed(paths)) == route


def test_packets_have_the_configs_source_where_the_version_of_ip_is_the_same() -> None:
    settings = make_instance(source="10.0.0.9")
    assert parse_ip(make(NETWORK, settings, make_path("10.0.0.1")).source) == ip_address("10.0.0.9")
    other: Network = ip_network("2001:db8:1::/48")
    assert parse_ip(make(other, settings, make_path("2001:db8::1")).source) is None


def test_a_default_route_has_no_destination() -> None:
    assert not make(DEFAULT, make_instance(), make_path("10.0.0.1")).HasField("destination")


def test_a_path_without_a_usable_next_hop_is_no_route() -> None:
    settings = make_instance()
    for hop in ("203.0.113.1", "0.0.0.0", "fe80::1"):
        assert make_route(NETWORK, [make_path(hop)], settings) is None
    assert make_route(NETWORK, [], settings) is None


def test_the_peers_address_on_the_link_comes_before_the_global_one() -> None:
    settings = make_instance()
    path = make_path("2001:db8::1", link="eth0", link_local="fe80::1")
    assert find_hop(path, settings) == (ip_address("fe80::1"), "eth0")
    elsewhere = make_path("2001:db8::1", link_local="fe80::1")
    assert find_hop(elsewhere, settings) == (ip_address("2001:db8::1"), "eth0"), "on which link is not known"
    assert find_hop(make_path("203.0.113.1", link="eth1"), settings) == (ip_address("203.0.113.1"), "eth1")


def test_ids_of_routes_differ_by_instance_and_network() -> None:
    route = make(NETWORK, make_instance(), make_path("10.0.0.1"))
    assert make_id("fabric", route) == "bgp/fabric/inet4/10.0.0.1/192.0.2.0/24/0"
