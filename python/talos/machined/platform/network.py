"""The launcher's ``network.yaml`` as the network config of the platform."""

import ipaddress
from typing import Any, cast

import yaml

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import network_pb2 as network
from talos.resource.addresses import family_of
from talos.system.errors import UserError

FILE = "network.yaml"
LOW_PRIORITY = 1024
"""Metric of default routes without one, as upstream's."""


def parse_network(text: str, hostname: str, *, platform: str) -> network.PlatformConfigSpec:
    """Of a platform: links with static addresses, a gateway each, resolvers and time servers."""
    spec = network.PlatformConfigSpec()
    try:
        data = cast("dict[str, Any]", yaml.safe_load(text) or {})
        name = str(data.get("hostname") or hostname)
        if name:
            spec.hostnames.add(hostname=name, config_layer=enums.CONFIG_PLATFORM)
        for link in data.get("links") or ():
            _add_link(spec, link)
        resolvers = [make_ip(ipaddress.ip_address(str(address))) for address in data.get("resolvers") or ()]
        if resolvers:
            spec.resolvers.add(dns_servers=resolvers, config_layer=enums.CONFIG_PLATFORM)
        servers = [str(server) for server in data.get("timeServers") or ()]
        if servers:
            spec.time_servers.add(ntp_servers=servers, config_layer=enums.CONFIG_PLATFORM)
        spec.metadata.platform = platform
        spec.metadata.hostname = name
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"not a network config: {error!r}", where=FILE) from None
    return spec


def _add_link(spec: network.PlatformConfigSpec, link: dict[str, Any]) -> None:
    name = str(link["name"])
    spec.links.add(name=name, up=True, mtu=int(link.get("mtu") or 0), config_layer=enums.CONFIG_PLATFORM)
    for text in link.get("addresses") or ():
        interface = ipaddress.ip_interface(text)
        spec.addresses.add(
            address=make_prefix(interface),
            link_name=name,
            family=family_of(interface),
            scope=enums.SCOPE_GLOBAL,
            flags=enums.ADDRESS_PERMANENT,
            config_layer=enums.CONFIG_PLATFORM,
        )
    if link.get("gateway"):
        gateway = ipaddress.ip_address(link["gateway"])
        spec.routes.add(
            family=family_of(gateway),
            gateway=make_ip(gateway),
            out_link_name=name,
            table=enums.TABLE_MAIN,
            priority=LOW_PRIORITY,
            scope=enums.SCOPE_GLOBAL,
            type=enums.TYPE_UNICAST,
            protocol=enums.PROTOCOL_STATIC,
            config_layer=enums.CONFIG_PLATFORM,
        )
