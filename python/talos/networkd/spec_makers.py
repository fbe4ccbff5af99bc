"""Specs of links, addresses, routes and names, from whatever layer."""

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import AddressSpecSpec, HostnameSpecSpec, RouteSpecSpec
from talos.networkd.layers import ROUTE_METRIC
from talos.resource.addresses import family_of
from talos.system.net.links import Address, Interface, Network

type Layer = enums_pb2.NetworkConfigLayer


def make_hostname(text: str, layer: Layer) -> HostnameSpecSpec:
    """A host name; what follows its first dot is the domain."""
    hostname, _, domain = text.partition(".")
    return HostnameSpecSpec(hostname=hostname, domainname=domain, config_layer=layer)


def make_address(link: str, address: Interface, layer: Layer, *, priority: int = 0) -> AddressSpecSpec:
    """An address of a link."""
    return AddressSpecSpec(
        address=make_prefix(address),
        link_name=link,
        family=family_of(address),
        scope=enums_pb2.SCOPE_GLOBAL,
        flags=enums_pb2.ADDRESS_PERMANENT,
        priority=priority,
        config_layer=layer,
    )


def make_route(
    link: str,
    destination: Network | None,
    gateway: Address | None,
    layer: Layer,
    *,
    metric: int = 0,
    source: Address | None = None,
    table: int = 0,
    mtu: int = 0,
    protocol: enums_pb2.NethelpersRouteProtocol = enums_pb2.PROTOCOL_STATIC,
    type: enums_pb2.NethelpersRouteType = enums_pb2.TYPE_UNICAST,
) -> RouteSpecSpec:
    """A route; all destinations when there is none, on the link itself without a gateway."""
    known = gateway or destination or source
    family = family_of(known) if known is not None else enums_pb2.FAMILY_INET4
    is_six = family == enums_pb2.FAMILY_INET6
    on_link = gateway is None and type == enums_pb2.TYPE_UNICAST and not is_six
    spec = RouteSpecSpec(
        family=family,
        out_link_name=link,
        priority=metric or ROUTE_METRIC * (2 if is_six else 1),
        scope=enums_pb2.SCOPE_LINK if on_link else enums_pb2.SCOPE_GLOBAL,
        type=type,
        protocol=protocol,
        mtu=mtu,
        config_layer=layer,
    )
    setattr(spec, "table", table or enums_pb2.TABLE_MAIN)  # noqa: B010 - any number is a table's
    if destination is not None and destination.prefixlen:
        spec.destination.CopyFrom(make_prefix(destination))
    if gateway is not None:
        spec.gateway.CopyFrom(make_ip(gateway))
    if source is not None:
        spec.source.CopyFrom(make_ip(source))
    return spec


_TABLE_NAMES = {"": 0, "unspec": 0, "default": 253, "main": 254, "local": 255}


def parse_table(text: str | None) -> int:
    """A routing table by its name or number; 0 for none."""
    name = str(text or "")
    return _TABLE_NAMES[name] if name in _TABLE_NAMES else int(name)
