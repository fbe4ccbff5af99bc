"""The network config that the platform hands over, as the resource that networkd applies."""

from collections.abc import Callable
from ipaddress import ip_address, ip_interface
from typing import Any

import yaml

from talos.api.common import common_pb2
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    AddressSpecSpec,
    HostnameSpecSpec,
    LinkSpecSpec,
    NameServerSpec,
    PlatformConfigSpec,
    ResolverSpecSpec,
    RouteSpecSpec,
    TimeServerSpecSpec,
)
from talos.resource import kinds
from talos.resource.controller import ControllerRuntime, Output, Reconciler
from talos.system.errors import UserError

ACTIVE_ID = "active"
# The metric of default routes that are configured without one.
DEFAULT_ROUTE_METRIC = 1024
_LAYER = enums_pb2.CONFIG_PLATFORM
_KEYS = {"hostname", "links", "resolvers", "timeServers"}
_LINK_KEYS = {"name", "mtu", "addresses", "gateway"}


class PlatformConfigController(Reconciler):
    """Writes the PlatformConfig ``active``. ``read`` gives the text of ``network.yaml``, empty for none."""

    name = "network.PlatformConfigController"
    outputs = (Output(kinds.PLATFORM_CONFIG),)

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """The text doesn't change while we run."""
        text = self._read()
        async with runtime.track_outputs():
            if text:
                config = parse_network(text)
                await runtime.modify(kinds.PLATFORM_CONFIG, ACTIVE_ID, lambda spec: spec.CopyFrom(config))


def parse_network(text: str) -> PlatformConfigSpec:
    """The form of ``network.yaml``; UserError names what it can't be."""
    data = yaml.safe_load(text)
    _check_keys(data, _KEYS, "network.yaml")
    config = PlatformConfigSpec()
    try:
        for link in data.get("links", []):
            _check_keys(link, _LINK_KEYS, "network.yaml: links")
            _add_link(config, link)
        if data.get("hostname"):
            config.hostnames.append(make_hostname(data["hostname"], _LAYER))
        resolvers = [common_pb2.NetIP(ip=ip_address(text).packed) for text in data.get("resolvers", [])]
        if resolvers:
            servers = [NameServerSpec(addr=server) for server in resolvers]
            config.resolvers.append(
                ResolverSpecSpec(dns_servers=resolvers, name_servers=servers, config_layer=_LAYER)
            )
        if data.get("timeServers"):
            config.time_servers.append(
                TimeServerSpecSpec(ntp_servers=data["timeServers"], config_layer=_LAYER)
            )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{type(error).__name__}: {error}", where="the platform's network.yaml") from error
    return config


def make_hostname(text: str, layer: enums_pb2.NetworkConfigLayer) -> HostnameSpecSpec:
    """A host name; what follows its first dot is the domain."""
    hostname, _, domain = text.partition(".")
    return HostnameSpecSpec(hostname=hostname, domainname=domain, config_layer=layer)


def _add_link(config: PlatformConfigSpec, link: dict[str, Any]) -> None:
    name = link["name"]
    config.links.append(
        LinkSpecSpec(
            name=name, up=True, mtu=link.get("mtu", 0), type=enums_pb2.LINK_ETHER, config_layer=_LAYER
        )
    )
    for text in link.get("addresses", []):
        interface = ip_interface(text)
        config.addresses.append(
            AddressSpecSpec(
                address=common_pb2.NetIPPrefix(
                    ip=interface.ip.packed, prefix_length=interface.network.prefixlen
                ),
                link_name=name,
                family=enums_pb2.FAMILY_INET4 if interface.version == 4 else enums_pb2.FAMILY_INET6,
                scope=enums_pb2.SCOPE_GLOBAL,
                flags=enums_pb2.ADDRESS_PERMANENT,
                config_layer=_LAYER,
            )
        )
    if link.get("gateway"):
        gateway = ip_address(link["gateway"])
        config.routes.append(
            RouteSpecSpec(
                family=enums_pb2.FAMILY_INET4 if gateway.version == 4 else enums_pb2.FAMILY_INET6,
                gateway=common_pb2.NetIP(ip=gateway.packed),
                out_link_name=name,
                table=enums_pb2.TABLE_MAIN,
                priority=DEFAULT_ROUTE_METRIC,
                scope=enums_pb2.SCOPE_GLOBAL,
                type=enums_pb2.TYPE_UNICAST,
                protocol=enums_pb2.PROTOCOL_STATIC,
                config_layer=_LAYER,
            )
        )


def _check_keys(data: Any, known: set[str], where: str) -> None:
    if not isinstance(data, dict):
        raise UserError(f"a mapping is expected, not {type(data).__name__}", where=where)
    unknown = {str(key) for key in data} - known
    if unknown:
        raise UserError(f"unknown keys {', '.join(sorted(unknown))}", where=where)
