"""Configs that would cut off the one who applies them."""

from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any

import pytest

from talos.config.change.cut_off import find_cut_offs
from talos.config.effective.links import LinkUse
from talos.config.read.loader import load

MAIN = "version: v1alpha1\nmachine: {type: worker}\n"
BLOCK = "---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"


def rule(ports: str, senders: str, protocol: str = "tcp") -> str:
    return (
        "---\napiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: api\n"
        f"portSelector: {{ports: {ports}, protocol: {protocol}}}\ningress: {senders}\n"
    )


def link(addresses: str) -> str:
    return f"---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: {addresses}\n"


def document(kind: str, settings: str, name: str = "own") -> str:
    return f"---\n{{apiVersion: v1alpha1, kind: {kind}, name: {name!r}, {settings}}}\n"


OURS, OTHERS = "[{subnet: 192.0.2.0/24}]", "[{subnet: 192.0.2.0/24, except: 192.0.2.7/32}]"
STATIC = "[{address: 10.0.0.5/24}]"
DHCP = "---\napiVersion: v1alpha1\nkind: DHCPv4Config\nname: eth0\n"
SET = "10.0.0.5, which this call has reached, is not set on eth0 any more; a DHCP server"
FIREWALL, ADDRESS = "the firewall closes the API", "10.0.0.5, which this call has reached, is not an address"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "", ""),
        ("", BLOCK, FIREWALL),
        (BLOCK, BLOCK, ""),
        ("", BLOCK + rule("[50000]", OURS), ""),
        ("", BLOCK + rule("[49000-50001]", OURS), ""),
        ("", BLOCK + rule("[50001]", OURS), FIREWALL),
        ("", BLOCK + rule("[50000]", OURS, "udp"), FIREWALL),
        ("", BLOCK + rule("[50000]", OTHERS), FIREWALL),
        ("", rule("[50000]", OURS), ""),
        ("", rule("[50000]", OTHERS), FIREWALL),
        ("", rule("[80]", OTHERS), ""),
        (link(STATIC), link("[{address: 10.0.0.6/24}]"), ADDRESS),
        (link(STATIC), link(STATIC), ""),
        (link(STATIC), "", SET),
        (link(STATIC), DHCP, SET),
        (link(STATIC), document("VethConfig", f"peer: {{name: b}}, addresses: {STATIC}"), ""),
        (link(STATIC), document("VethConfig", f"peer: {{name: b, addresses: {STATIC}}}"), ""),
        (document("VethConfig", f"peer: {{name: eth0, addresses: {STATIC}}}"), "", ADDRESS),
        (document("VethConfig", f"peer: {{name: eth0, addresses: {STATIC}}}"), DHCP, ADDRESS),
        ("", document("VethConfig", "peer: {name: eth0}"), ADDRESS),
        ("", document("BondConfig", "links: [eth0]"), ADDRESS),
        ("", document("BondConfig", "links: [eth1]"), ""),
        ("", document("BridgeConfig", "links: [eth0]") + DHCP, ADDRESS),
        ("", document("BridgeConfig", f"links: [eth0], addresses: {STATIC}"), ""),
        (link(STATIC), link(STATIC) + document("BridgeConfig", "links: [eth0]"), ADDRESS),
        (link(STATIC), link(STATIC) + document("VRFConfig", "links: [eth0], table: 10"), ADDRESS),
        ("", document("VRFConfig", "links: [net0], table: 10"), ADDRESS),
        (link(STATIC), document("WireguardConfig", f"addresses: {STATIC}"), ""),
        ("", document("LinkConfig", "up: false", name="eth0"), ADDRESS),
        (DHCP, DHCP + document("LinkConfig", "mtu: 1400", name="eth0"), ""),
        ("", document("Layer2VIPConfig", "link: eth0", name="10.0.0.9"), ADDRESS),
        (document("Layer2VIPConfig", "link: eth0", name="10.0.0.5"), "", SET),
        ("", document("DHCPv6Config", "routeMetric: 1", name="eth0"), ADDRESS),
        ("", link("[{address: 10.0.0.6/24}]"), ADDRESS),
        ("", link("[{address: 10.0.0.6/24}]") + DHCP, ""),
        ("", link(STATIC), ""),
    ],
)
def test_a_config_that_cuts_the_caller_off(before: str, after: str, expected: str) -> None:
    configs = load(MAIN + before), load(MAIN + after)
    found = find_cut_offs(*configs, caller="192.0.2.7", reached="10.0.0.5", link="eth0", names=["net0"])
    assert [text.startswith(expected) for text in found] == [True] * bool(expected), found


@pytest.mark.parametrize(
    ("interface", "expected"),
    [
        ("{interface: eth0, addresses: [10.0.0.5/24]}", ""),
        ("{interface: eth0, addresses: [10.0.0.6/24]}", ADDRESS),
        ("{interface: eth0, dhcp: true}", ""),
        ("{interface: eth0, dhcp: true, dhcpOptions: {ipv4: false}}", ADDRESS),
        ("{interface: eth0, vlans: [{vlanId: 5, addresses: [10.0.0.5/24]}]}", ""),
        ("{interface: bond0, dhcp: true, bond: {interfaces: [eth0]}}", ADDRESS),
        ("{interface: br0, cidr: 10.0.0.5/24, bridge: {interfaces: [eth0]}}", ""),
        ("{interface: eth0, dhcp: true, bridgePort: {master: br0}}", ADDRESS),
        ("{interface: eth0, ignore: true}", ADDRESS),
        ("{deviceSelector: {driver: virtio*}, addresses: [10.0.0.6/24]}", ""),
    ],
)
def test_an_interface_of_the_main_document_that_cuts_the_caller_off(interface: str, expected: str) -> None:
    network = f"version: v1alpha1\nmachine: {{type: worker, network: {{interfaces: [{interface}]}}}}\n"
    found = find_cut_offs(load(MAIN), load(network), caller="192.0.2.7", reached="10.0.0.5", link="eth0")
    assert [text.startswith(expected) for text in found] == [True] * bool(expected), found


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("", ""),
        (document("LinkConfig", "mtu: 1400", name="eth0"), ""),
        (document("LinkConfig", "mtu: 1400", name="net0"), ""),
        (link("[{address: 10.0.0.6/24}]"), ""),
        (document("LinkConfig", "up: false", name="eth0"), ADDRESS),
        (document("BridgeConfig", "links: [net0]"), ADDRESS),
    ],
)
@pytest.mark.parametrize("use", [{"addresses": (ip_address("10.0.0.5"),)}, {"dhcp": frozenset({4})}])
def test_an_address_of_the_platform_stays_on_a_link_that_is_up(
    use: Mapping[str, Any], after: str, expected: str
) -> None:
    found = find_cut_offs(
        load(MAIN),
        load(MAIN + after),
        caller="192.0.2.7",
        reached="10.0.0.5",
        link="eth0",
        names=["net0"],
        others=[LinkUse(name="eth0", **use)],
    )
    assert [text.startswith(expected) for text in found] == [True] * bool(expected), found


def test_addresses_that_routers_announce_stay_on_a_link_that_is_up() -> None:
    find = partial(find_cut_offs, load(MAIN), caller="2001:db8::7", reached="2001:db8::5", link="eth0")
    assert not find(load(MAIN + link(STATIC)))
    assert find(load(MAIN + document("BondConfig", "links: [eth0]")))


def test_the_machine_itself_is_never_cut_off() -> None:
    configs = load(MAIN), load(MAIN + BLOCK)
    assert not find_cut_offs(*configs, caller="127.0.0.1", reached="127.0.0.1", link="lo")
    assert not find_cut_offs(*configs, caller="unknown", reached="", link="")
