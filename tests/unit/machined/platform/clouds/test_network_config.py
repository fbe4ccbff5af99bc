"""The network of nocloud seeds."""

from ipaddress import ip_interface

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.platform.builder import Cards, NetworkBuilder
from talos.machined.platform.clouds.network_config import read_network_config
from talos.system.errors import UserError

LINKS = {"02:00:00:00:00:01": "enp1s0", "02:00:00:00:00:02": "enp2s0"}
VERSION1 = """\
version: 1
config:
- type: vlan
  name: eth0.5
  vlan_link: eth0
  vlan_id: 5
  subnets: [{type: dhcp6}]
- type: physical
  name: eth0
  mac_address: "02:00:00:00:00:01"
  mtu: 1400
  subnets:
  - type: static
    address: 10.0.0.5
    netmask: 255.255.255.0
    gateway: 10.0.0.1
    dns_nameservers: [10.0.0.53]
    dns_search: [example.org]
    routes: [{network: 10.9.0.0, netmask: 255.255.0.0, gateway: 10.0.0.9, metric: 7}]
  - {type: static6, address: "fd00::5/64"}
- type: physical
  name: eth1
  subnets: [{type: dhcp4}]
- {type: nameserver, address: [10.0.0.54, 10.0.0.53]}
"""
VERSION2 = """\
network:
  version: 2
  ethernets:
    lan:
      match: {macaddress: "02:00:00:00:00:01"}
      set-name: lan0
    other:
      match: {macaddress: "02:00:00:00:00:02"}
  bonds:
    bond0:
      interfaces: [lan, other]
      parameters: {mode: 802.3ad, mii-monitor-interval: 100, transmit-hash-policy: layer3+4, lacp-rate: fast}
      addresses: [10.0.0.5/24, "fd00::5/64"]
      nameservers: {addresses: [10.0.0.53], search: [a.example]}
      routes:
      - {to: default, via: 10.0.0.1}
      - {to: 10.9.0.0/16, via: 10.0.0.9, metric: 7, table: 100, mtu: 1300, from: 10.0.0.5}
  vlans:
    v7: {id: 7, link: bond0, dhcp4: true, dhcp4-overrides: {route-metric: 50}}
  bridges:
    br0: {interfaces: [v7], parameters: {stp: true}}
"""


def read(text: str, cards: Cards) -> NetworkBuilder:
    builder = NetworkBuilder(cards)
    read_network_config(text.encode(), builder)
    return builder


def addresses(spec: PlatformConfigSpec) -> list[str]:
    return [
        f"{item.link_name} {ip_interface((item.address.ip, item.address.prefix_length))}"
        for item in spec.addresses
    ]


def test_version_1_names_links_by_their_hardware_address() -> None:
    spec = read(VERSION1, LINKS).spec
    assert [(link.name, link.mtu, link.kind) for link in spec.links] == [
        ("enp1s0", 1400, ""),
        ("eth1", 0, ""),
        ("eth0.5", 0, "vlan"),
    ]
    assert (spec.links[2].parent_name, spec.links[2].vlan.vid) == ("enp1s0", 5)
    assert addresses(spec) == ["enp1s0 10.0.0.5/24", "enp1s0 fd00::5/64"]
    assert [(route.destination.prefix_length, route.priority) for route in spec.routes] == [
        (0, 1024),
        (16, 7),
    ]
    assert [(item.operator, item.link_name) for item in spec.operators] == [
        (enums.OPERATOR_DHCP4, "eth1"),
        (enums.OPERATOR_DHCP6, "eth0.5"),
    ]
    [resolvers] = spec.resolvers
    assert [server.ip[3] for server in resolvers.dns_servers] == [53, 54]
    assert list(resolvers.search_domains) == ["example.org"]


def test_version_2_knows_bonds_bridges_and_vlans() -> None:
    spec = read(VERSION2, LINKS).spec
    links = {link.name: link for link in spec.links}
    assert list(links) == ["enp1s0", "enp2s0", "bond0", "br0", "v7"]
    bond = links["bond0"].bond_master
    assert (bond.mode, bond.mii_mon, bond.hash_policy, bond.lacp_rate) == (4, 100, 1, 1)
    assert [links[name].bond_slave.slave_index for name in ("enp1s0", "enp2s0")] == [0, 1]
    assert (links["v7"].bridge_slave.master_name, links["br0"].bridge_master.stp.enabled) == ("br0", True)
    assert addresses(spec) == ["bond0 10.0.0.5/24", "bond0 fd00::5/64"]
    other = spec.routes[1]
    assert (other.table, other.mtu, other.source.ip) == (100, 1300, bytes([10, 0, 0, 5]))
    assert spec.operators[0].dhcp4.route_metric == 50


@pytest.mark.parametrize("text", [VERSION1, VERSION2])
def test_hardware_addresses_that_no_link_has(text: str) -> None:
    assert read(text, LINKS).missing == []
    assert "02:00:00:00:00:01" in read(text, {}).missing


def test_words_are_those_of_config_files() -> None:
    text = """\
version: 2
ethernets:
  card-of-the-outside:
    match: {macaddress: 52:54:00:12:00:01}
    dhcp4: off
    dhcp6: yes
    routes: [{to: default, via: 10.0.0.1, on-link: no}]
bridges:
  br0: {parameters: {stp: on}}
"""
    spec = read(text, {"52:54:00:12:00:01": "enp1s0"}).spec
    assert [(item.operator, item.link_name) for item in spec.operators] == [(enums.OPERATOR_DHCP6, "enp1s0")]
    assert (spec.routes[0].flags, spec.links[1].bridge_master.stp.enabled) == (0, True)
    late = read(text, {})
    assert (late.missing, late.spec.links[0].name) == (["52:54:00:12:00:01"], "missing0")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[1]", "network-config"),
        ("{version: 3}", "neither 1 nor 2"),
        ("{version: 2, ethernets: {eth0: {addresses: [x/24]}}}", "ethernets.eth0"),
        ("{version: 2, ethernets: {'a b': {}}}", "no link's name"),
        ("{version: 2, vlans: {v: {id: 5000, link: eth0}}}", "between 1 and 4094"),
        ("{version: 2, ethernets: {eth0: {routes: [{to: default}]}}}", "destination or a gateway"),
        ("{version: 2, bonds: {b: {parameters: {mode: fast}}}}", "is none of"),
        ("{version: 2, bonds: {b: {parameters: {mode: ²}}}}", "is none of"),
        ("{version: 2, bonds: {b: {parameters: {mode: '000999999999999'}}}}", "is none of"),
        ("{version: 1, config: [{type: [bond], name: a}]}", "none that nodes know"),
        ("{version: 1, config: [{type: infiniband, name: a}]}", "none that nodes know"),
        ("{version: 1, config: [{type: physical, name: a, subnets: [{type: x}]}]}", "none that nodes know"),
        ("{version: 1, config: [{type: route, gateway: 10.0.0.1}]}", "no link for it"),
        ("a: &a [1]\nb: [*a", "no YAML"),
        ("a: !!bool x", "neither 1 nor 2"),
        ("{version: 2, ethernets: {eth0: {dhcp4: perhaps}}}", "ethernets.eth0.dhcp4: 'perhaps' is neither"),
        ("{version: 2, vlans: {a-long-name.1234: {id: 1234, link: eth0}}}", "at most 15 characters"),
    ],
)
def test_a_mistake_is_named_on_one_line(text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        read(text, LINKS)
    assert str(caught.value).isprintable()
