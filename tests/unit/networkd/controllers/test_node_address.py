"""The list of all addresses that a node ever had, where routers announce ever new networks."""

from ipaddress import ip_interface

from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.networkd.controllers.node_address import MAX_ADDRESSES, add_addresses
from talos.resource.addresses import parse_interface


def test_addresses_of_the_past_do_not_grow_without_an_end() -> None:
    spec = NodeAddressSpec()
    own = ip_interface("10.0.0.1/24")
    for number in range(MAX_ADDRESSES * 3):
        add_addresses(spec, [own, ip_interface(f"fd00:0:0:{number:x}::1/64")])
        assert len(spec.addresses) == min(number + 2, MAX_ADDRESSES)
    found = [parse_interface(address) for address in spec.addresses]
    assert found[0] == own
    assert ip_interface(f"fd00:0:0:{MAX_ADDRESSES * 3 - 1:x}::1/64") in found
    many = [
        ip_interface(f"10.0.{number // 250}.{number % 250 + 1}/16") for number in range(MAX_ADDRESSES + 9)
    ]
    add_addresses(spec, many)
    assert len(spec.addresses) == len(many)
