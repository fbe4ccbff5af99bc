"""Messages from YAML: what was written is read back, and mistakes have their place."""

import pytest
import yaml

from talos.api.common.common_pb2 import NetIP, NetIPPort, NetIPPrefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import network_pb2 as network
from talos.resource import kinds
from talos.resource.yaml.parse import value_to_message
from talos.resource.yaml.spec import spec_to_yaml
from talos.system.errors import UserError

V4, V6 = bytes([10, 5, 0, 2]), bytes.fromhex("fd000000000000000042acfffe110002")


def make_config() -> network.PlatformConfigSpec:
    """Something of every form that fields have."""
    spec = network.PlatformConfigSpec()
    spec.addresses.add(
        address=NetIPPrefix(ip=V6, prefix_length=64),
        link_name="eth0",
        family=enums.FAMILY_INET6,
        scope=enums.SCOPE_GLOBAL,
        flags=0x80 | 0x200,
        config_layer=enums.CONFIG_PLATFORM,
        priority=1024,
    )
    bond = spec.links.add(name="bond0", kind="bond", type=enums.LINK_ETHER, up=True, logical=True, mtu=9000)
    bond.bond_master.mode = enums.BOND_MODE8023_AD
    bond.bond_master.use_carrier = True
    bond.bond_master.arpip_targets.add(ip=V4)
    spec.links.add(name="eth1", hardware_address=bytes(range(6))).bond_slave.master_name = "bond0"
    wireguard = spec.links.add(name="wg0", kind="wireguard").wireguard
    peer = wireguard.peers.add(endpoint="10.5.0.2:51820", public_key="key")
    peer.persistent_keepalive_interval.seconds = 25
    peer.allowed_ips.add(ip=V4, prefix_length=32)
    spec.routes.add(gateway=NetIP(ip=V4), table=enums.TABLE_MAIN, priority=1024, type=enums.TYPE_UNICAST)
    spec.resolvers.add(dns_servers=[NetIP(ip=V4), NetIP(ip=V6)], search_domains=["example.org"])
    spec.operators.add(operator=enums.OPERATOR_DHCP4, link_name="eth0").dhcp4.route_metric = 512
    spec.external_ips.add(ip=V4)
    return spec


def test_what_was_written_is_read_back() -> None:
    spec = make_config()
    text = spec_to_yaml(kinds.PLATFORM_CONFIG, spec)
    found = network.PlatformConfigSpec()
    value_to_message(found, yaml.safe_load(text))
    assert spec_to_yaml(kinds.PLATFORM_CONFIG, found) == text
    assert found.links[1].bond_slave.master_name == "bond0"
    assert not found.links[2].HasField("bond_slave")


def test_endpoints() -> None:
    found = NetIPPort()
    value_to_message(container := network.RouteSpecSpec(), {"table": 1234, "flags": 4})
    assert (container.table, container.flags) == (1234, 4)
    assert found == NetIPPort()


MISTAKES: list[tuple[object, str]] = [
    ("text", "is no mapping"),
    ({"links": 1}, "links: is no list"),
    ({"links": [1]}, r"links\[0\]: is no mapping"),
    ({"links": [{"mtu": "large"}]}, r"links\[0\]\.mtu: 'large' is not possible here"),
    ({"links": [{"mtu": -1}]}, r"links\[0\]\.mtu: -1 is not possible here"),
    ({"links": [{"mtu": True}]}, r"links\[0\]\.mtu: True is not possible here"),
    ({"links": [{"up": "yes"}]}, r"links\[0\]\.up: 'yes' is not possible here"),
    ({"links": [{"name": 1}]}, r"links\[0\]\.name: 1 is no text"),
    ({"links": [{"type": "token"}]}, r"links\[0\]\.type: there is no 'token' \(use one of: .*ether"),
    ({"links": [{"hardwareAddr": "x"}]}, r"'x' is no hardware address"),
    (
        {"addresses": [{"address": "10.0.0.1"}]},
        r"addresses\[0\]\.address: '10.0.0.1' has no prefix length",
    ),
    ({"addresses": [{"address": "a/24"}]}, r"addresses\[0\]\.address: 'a/24'"),
    ({"addresses": [{"flags": "eternal"}]}, r"addresses\[0\]\.flags: there is no 'eternal'"),
    ({"externalIPs": ["10.0.0"]}, r"externalIPs\[0\]: '10.0.0'"),
    ({"probes": [{"interval": "soon"}]}, r"probes\[0\]\.interval: \"soon\" is not a duration"),
]


@pytest.mark.parametrize(("value", "text"), MISTAKES)
def test_mistakes_have_their_place(value: object, text: str) -> None:
    with pytest.raises(UserError, match=text):
        value_to_message(network.PlatformConfigSpec(), value)


def test_unknown_keys_are_left_out() -> None:
    spec = network.PlatformConfigSpec()
    value_to_message(spec, yaml.safe_load("{later: 1, hostnames: [{hostname: a, more: {}}]}"))
    assert spec == network.PlatformConfigSpec(hostnames=[network.HostnameSpecSpec(hostname="a")])
