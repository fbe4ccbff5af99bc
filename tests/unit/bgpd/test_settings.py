"""What an instance of BGP runs with: its config, with the links and addresses of the node."""

from ipaddress import IPv4Address, ip_address, ip_network

import pytest
from google.protobuf.duration_pb2 import Duration
from tests.unit.bgpd.places import settle

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions.network_pb2 import BGPImportRouteSpec, BGPInstanceConfigSpec, BGPNeighborConfigSpec
from talos.bgpd.settings import HOLD_TIME, MAX_HOLD_TIME, NotReadyError

ID = make_ip(ip_address("192.0.2.1"))


@pytest.mark.parametrize("link", ["eth0", "uplink", "enp1s0"])
def test_an_advertised_link_has_its_networks_announced_whichever_name_it_is_called_by(link: str) -> None:
    settings = settle(BGPInstanceConfigSpec(local_asn=65001, advertise_links=[link]))
    assert settings.networks == {ip_network("10.0.0.0/24"), ip_network("2001:db8::/64")}
    assert settings.identity.router_id == IPv4Address("10.0.0.5"), "the lowest that is announced"


def test_loopback_and_link_local_addresses_are_not_announced() -> None:
    settings = settle(BGPInstanceConfigSpec(router_id=ID, advertise_links=["lo", "eth1"]))
    assert settings.networks == {ip_network("10.0.0.128/25")}
    assert settings.identity.router_id == IPv4Address("192.0.2.1")


def test_an_instance_has_the_links_of_its_routing_domain_alone() -> None:
    default = settle(BGPInstanceConfigSpec(router_id=ID))
    assert {link for link, _ in default.addresses} == {"lo", "eth0", "eth1"}
    blue = settle(BGPInstanceConfigSpec(router_id=ID, vrf="blue"))
    assert {link for link, _ in blue.addresses} == {"eth2"}


def test_the_link_of_an_address_is_that_of_the_narrowest_network() -> None:
    settings = settle(BGPInstanceConfigSpec(router_id=ID))
    found = [settings.find_link(ip_address(text)) for text in ("10.0.0.1", "10.0.0.200", "172.16.0.1")]
    assert found == ["eth0", "eth1", ""]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (BGPInstanceConfigSpec(advertise_links=["eth9"]), "there is no link eth9"),
        (BGPInstanceConfigSpec(router_id=ID, vrf="red"), "there is no VRF red"),
        (BGPInstanceConfigSpec(router_id=ID, vrf="eth0"), "there is no VRF eth0"),
        (
            BGPInstanceConfigSpec(router_id=ID, vrf="blue", advertise_links=["eth0"]),
            "no link eth0 in the VRF blue",
        ),
        (BGPInstanceConfigSpec(advertise_links=["lo"]), "no routerID"),
        (BGPInstanceConfigSpec(router_id=ID, route_source=ID), "routeSource 192.0.2.1 is no address"),
        (
            BGPInstanceConfigSpec(router_id=ID, neighbors=[BGPNeighborConfigSpec(link="eth2")]),
            "there is no link eth2",
        ),
    ],
)
def test_what_is_not_there_yet_is_waited_for(spec: BGPInstanceConfigSpec, reason: str) -> None:
    with pytest.raises(NotReadyError, match=reason):
        settle(spec)


@pytest.mark.parametrize(("given", "used"), [(0, HOLD_TIME), (1, 3), (30, 30), (100_000, MAX_HOLD_TIME)])
def test_a_hold_time_is_one_that_a_message_can_have(given: int, used: int) -> None:
    neighbor = BGPNeighborConfigSpec(peer_asn=65000, hold_time=Duration(seconds=given))
    (found,) = settle(BGPInstanceConfigSpec(router_id=ID, neighbors=[neighbor])).neighbors
    assert found.hold_time == used


def test_a_neighbor_may_see_another_number_than_the_instances() -> None:
    neighbors = [
        BGPNeighborConfigSpec(link="uplink", peer_asn=65000),
        BGPNeighborConfigSpec(
            address=make_ip(ip_address("10.0.0.1")), peer_asn=65000, local_asn=64999, passive=True
        ),
    ]
    one, two = settle(BGPInstanceConfigSpec(local_asn=65001, router_id=ID, neighbors=neighbors)).neighbors
    assert (one.address, one.link, one.local_asn, one.replaces_peer) == (None, "eth0", 65001, False)
    assert (two.address, two.link, two.local_asn) == (IPv4Address("10.0.0.1"), "", 64999)
    assert two.replaces_peer
    assert two.is_passive
    assert one.bfd is None


def test_what_is_imported_are_networks() -> None:
    route = BGPImportRouteSpec(bgp_instance="blue", prefixes=[make_prefix(ip_network("172.16.0.0/24"))])
    (found,) = settle(BGPInstanceConfigSpec(router_id=ID, import_routes=[route])).imports
    assert (found.instance, found.networks) == ("blue", (ip_network("172.16.0.0/24"),))
