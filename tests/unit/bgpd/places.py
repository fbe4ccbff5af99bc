"""Links and addresses of a node that speaks BGP: two links, and a VRF with one of its own."""

from ipaddress import ip_interface

from talos.api.addresses import make_prefix
from talos.api.definitions.network_pb2 import AddressStatusSpec, BGPInstanceConfigSpec, LinkStatusSpec
from talos.bgpd.settings import InstanceSettings, make_settings

LINKS = {
    "lo": LinkStatusSpec(index=1),
    "eth0": LinkStatusSpec(index=2, alias="uplink", alt_names=["enp1s0"]),
    "eth1": LinkStatusSpec(index=3),
    "blue": LinkStatusSpec(index=4, kind="vrf"),
    "eth2": LinkStatusSpec(index=5, master_index=4),
}
ADDRESSES = (
    ("lo", "127.0.0.1/8"),
    ("eth0", "10.0.0.9/24"),
    ("eth0", "10.0.0.5/24"),
    ("eth0", "fe80::5/64"),
    ("eth0", "2001:db8::5/64"),
    ("eth1", "10.0.0.129/25"),
    ("eth2", "172.16.0.5/24"),
)


def settle(spec: BGPInstanceConfigSpec) -> InstanceSettings:
    """What an instance runs with on this node."""
    addresses = [
        AddressStatusSpec(link_name=link, address=make_prefix(ip_interface(text))) for link, text in ADDRESSES
    ]
    return make_settings("fabric", spec, LINKS, addresses)
