"""What leases of DHCP contain, as specs of their layer."""

from ipaddress import IPv4Address, IPv6Interface, ip_network

from talos.api.addresses import make_ip
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    LinkSpecSpec,
    NameServerSpec,
    OperatorSpecSpec,
    PlatformConfigSpec,
    ResolverSpecSpec,
    RouteSpecSpec,
    TimeServerSpecSpec,
)
from talos.networkd.dhcp.lease import Lease
from talos.networkd.dhcp6.message import Lease6, make_duid
from talos.networkd.spec_makers import make_address, make_hostname, make_route
from talos.system.net.links import Address, Interface, Network

_LAYER = enums_pb2.CONFIG_OPERATOR
_MAC = 1
# RFC 4361: a client identifier made of an IAID and a DUID.
_DUID = 255


def make_config4(spec: OperatorSpecSpec, lease: Lease) -> PlatformConfigSpec:
    """Everything that a lease contains."""
    link, metric = spec.link_name, spec.dhcp4.route_metric
    config = PlatformConfigSpec()
    if lease.mtu:
        config.links.append(LinkSpecSpec(name=link, up=True, mtu=lease.mtu, config_layer=_LAYER))
    config.addresses.append(make_address(link, lease.address, _LAYER, priority=metric))
    if not spec.dhcp4.skip_routes:
        seen: set[object] = set()
        for route in lease.routes:
            if route.destination in seen:
                continue
            seen.add(route.destination)
            gateway = route.gateway
            if gateway is not None and not _is_reachable(gateway, lease):
                # RFC 3442: a gateway outside of the network is on the link all the same.
                on_link = ip_network(gateway)
                config.routes.append(_make_route(spec, on_link, None, lease.address))
            config.routes.append(_make_route(spec, route.destination, gateway, lease.address))
    if lease.hostname and not spec.dhcp4.skip_hostname_request:
        hostname = make_hostname(lease.hostname, _LAYER)
        hostname.domainname = hostname.domainname or lease.domain
        config.hostnames.append(hostname)
    if lease.resolvers:
        servers = [make_ip(server) for server in lease.resolvers]
        config.resolvers.append(
            ResolverSpecSpec(
                dns_servers=servers,
                name_servers=[NameServerSpec(addr=server) for server in servers],
                search_domains=lease.search or ([lease.domain] if lease.domain else []),
                config_layer=_LAYER,
            )
        )
    if lease.time_servers:
        servers = [str(server) for server in lease.time_servers]
        config.time_servers.append(TimeServerSpecSpec(ntp_servers=servers, config_layer=_LAYER))
    return config


def make_identifier(spec: OperatorSpecSpec, hardware_address: bytes) -> tuple[int, bytes] | None:
    """Option 61: by default the hardware address, or nothing, or a DUID."""
    wanted = spec.dhcp4.client_identifier
    if wanted.client_identifier == enums_pb2.CLIENT_IDENTIFIER_DUID:
        duid = bytes.fromhex(wanted.duid_raw_hex.replace(":", ""))
        return _DUID, hardware_address[-4:].rjust(4, b"\0") + duid
    if wanted.client_identifier == enums_pb2.CLIENT_IDENTIFIER_MAC:
        return _MAC, hardware_address
    return None


def _is_reachable(gateway: IPv4Address, lease: Lease) -> bool:
    return (
        any(route.gateway is None and gateway in route.destination for route in lease.routes)
        or gateway in lease.address.network
    )


def _make_route(
    spec: OperatorSpecSpec, destination: Network, gateway: Address | None, source: Interface
) -> RouteSpecSpec:
    return make_route(
        spec.link_name,
        destination,
        gateway,
        _LAYER,
        metric=spec.dhcp4.route_metric,
        source=source.ip,
        protocol=enums_pb2.PROTOCOL_DHCP,
    )


def make_config6(spec: OperatorSpecSpec, lease: Lease6) -> PlatformConfigSpec:
    """Everything that a lease of DHCPv6 contains. What is on the link, routers announce."""
    link, metric = spec.link_name, spec.dhcp6.route_metric
    config = PlatformConfigSpec()
    for item in lease.addresses:
        address = IPv6Interface((item.address, item.address.max_prefixlen))
        config.addresses.append(make_address(link, address, _LAYER, priority=metric))
    if lease.hostname and not spec.dhcp6.skip_hostname_request:
        config.hostnames.append(make_hostname(lease.hostname, _LAYER))
    if lease.resolvers:
        servers = [make_ip(server) for server in lease.resolvers]
        config.resolvers.append(
            ResolverSpecSpec(
                dns_servers=servers,
                name_servers=[NameServerSpec(addr=server) for server in servers],
                search_domains=lease.search,
                config_layer=_LAYER,
            )
        )
    if lease.time_servers:
        config.time_servers.append(TimeServerSpecSpec(ntp_servers=lease.time_servers, config_layer=_LAYER))
    return config


def make_duid6(spec: OperatorSpecSpec, hardware_address: bytes) -> bytes:
    """The client's DUID: that of the config, else one made from the hardware address."""
    wanted = spec.dhcp6.client_identifier
    if wanted.client_identifier == enums_pb2.CLIENT_IDENTIFIER_DUID:
        return bytes.fromhex(wanted.duid_raw_hex.replace(":", ""))
    return make_duid(hardware_address)
