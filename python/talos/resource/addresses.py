"""Addresses and networks between their protobuf form and Python's, and the ids made from them."""

from functools import lru_cache
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from talos.api.common import common_pb2
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import OperatorSpecSpec, RouteSpecSpec
from talos.system.net.links import Address, Interface, Network, RouteState

_FAMILIES = {2: "inet4", 10: "inet6"}
_OPERATORS = {
    enums_pb2.OPERATOR_DHCP4: "dhcp4",
    enums_pb2.OPERATOR_DHCP6: "dhcp6",
    enums_pb2.OPERATOR_VIP: "vip",
}
_TABLES = {253: "default", 254: "main", 255: "local"}
_CACHED = 512
"""Addresses, and as many networks: each takes 0.8 kB, and pods come with new ones all the time."""


@lru_cache(maxsize=_CACHED)
def _interface(packed: bytes, length: int) -> Interface:
    """Every controller reads the same addresses in every round."""
    return ip_interface((packed, length))


@lru_cache(maxsize=_CACHED)
def _network(packed: bytes, length: int) -> Network:
    return ip_network((packed, length), strict=False)


def parse_interface(prefix: common_pb2.NetIPPrefix) -> Interface:
    """An address with its prefix length; ValueError when it is empty."""
    return _interface(prefix.ip, prefix.prefix_length)


def parse_network(prefix: common_pb2.NetIPPrefix) -> Network | None:
    """A network; none when it is empty or matches everything, which is the default route's."""
    if not prefix.ip or prefix.prefix_length == 0:
        return None
    return _network(prefix.ip, prefix.prefix_length)


def parse_ip(address: common_pb2.NetIP) -> Address | None:
    """An address, if there is one."""
    return ip_address(address.ip) if address.ip else None


def family_of(address: Address | Interface | Network) -> enums_pb2.NethelpersFamily:
    """The address family."""
    return enums_pb2.FAMILY_INET4 if address.version == 4 else enums_pb2.FAMILY_INET6


def make_address_id(link: str, address: Interface) -> str:
    """The id of an address: ``eth0/10.5.0.2/24``."""
    return f"{link}/{address}"


def make_route_id(
    *, table: int, family: int, destination: Network | None, gateway: Address | None, priority: int, link: str
) -> str:
    """The id of a route: ``inet4/10.5.0.1//1024``, with the table unless it is main, and IPv6's link."""
    head = "" if table == 254 else f"{_TABLES.get(table, table)}/"
    if family == enums_pb2.FAMILY_INET6:
        head += f"{link}/"
    return f"{head}{_FAMILIES.get(family, family)}/{gateway or ''}/{destination or ''}/{priority}"


def route_spec_id(spec: RouteSpecSpec) -> str:
    """The id of a route spec."""
    return make_route_id(
        table=spec.table,
        family=spec.family,
        destination=parse_network(spec.destination),
        gateway=parse_ip(spec.gateway),
        priority=spec.priority,
        link=spec.out_link_name,
    )


def operator_id(spec: OperatorSpecSpec) -> str:
    """The id of an operator: ``dhcp4/eth0``, or ``vip/eth0/10.0.0.9``: a link may have several of those."""
    name = f"{_OPERATORS[spec.operator]}/{spec.link_name}"
    return f"{name}/{parse_ip(spec.vip.ip)}" if spec.operator == enums_pb2.OPERATOR_VIP else name


def route_state_id(route: RouteState, link: str) -> str:
    """The id of an existing route."""
    return make_route_id(
        table=route.table,
        family=route.family,
        destination=route.destination,
        gateway=route.gateway,
        priority=route.priority,
        link=link,
    )


def make_rule_id(family: int, priority: int) -> str:
    """The id of a routing rule: ``inet4/32766``."""
    return f"{_FAMILIES[family]}/{priority:05d}"


def number(value: int) -> Any:
    """A number of the kernel's as an enum's value: protobuf keeps those it has no name for."""
    return value
