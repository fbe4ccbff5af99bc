"""Names and servers of the machine config, as specs of its layer; and the default name."""

import hashlib
from collections.abc import Sequence
from ipaddress import ip_address

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    HostnameSpecSpec,
    NameServerSpec,
    ResolverSpecSpec,
    TimeServerSpecSpec,
)
from talos.config import effective
from talos.config.active import read_config
from talos.config.contract import TIME_SERVERS
from talos.networkd.addresses import make_ip, parse_interface
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.spec_makers import make_hostname
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.net.links import Interface

_LAYER = enums_pb2.CONFIG_MACHINE_CONFIGURATION
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class HostnameConfigController(Reconciler):
    """Writes the host names of the config and of the lowest layer, the one a node gives itself."""

    name = "network.HostnameConfigController"
    inputs = (
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.IDENTITY),
        Input(*ids.NODE_ADDRESS_DEFAULT),
    )
    outputs = (Output(kinds.HOSTNAME_SPEC, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow config, identity and address."""
        config = await read_config(runtime)
        specs: list[HostnameSpecSpec] = []
        if config is not None and effective.hostname(config):
            specs.append(make_hostname(effective.hostname(config), _LAYER))
        # Without a config, too: that is what a machine in maintenance mode goes by.
        default = await self._make_default(runtime, effective.auto_hostname(config) if config else "stable")
        if default:
            specs.append(make_hostname(default, enums_pb2.CONFIG_DEFAULT))
        async with runtime.track_outputs():
            for spec in specs:
                spec_id = layered_id(spec.config_layer, ids.id_of(ids.HOSTNAME_SPEC))
                await runtime.put(kinds.HOSTNAME_SPEC, spec_id, spec, namespace=CONFIG_NAMESPACE)

    @staticmethod
    async def _make_default(runtime: ControllerRuntime, way: str) -> str:
        if way == "off":
            return ""
        if way == "stable":
            identity = await runtime.get_or_none(*ids.IDENTITY)
            return make_stable_name(identity.spec.node_id) if identity is not None else ""
        address = await runtime.get_or_none(*ids.NODE_ADDRESS_DEFAULT)
        if address is None or not address.spec.addresses:
            return ""
        return make_address_name(parse_interface(address.spec.addresses[0]))


class ServersConfigController(Reconciler):
    """Writes the resolvers and time servers of the config."""

    name = "network.ServersConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.RESOLVER_SPEC, shared=True), Output(kinds.TIME_SERVER_SPEC, shared=True))

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None:
                return
            servers, domains = effective.nameservers(config), effective.search_domains(config)
            if servers or domains:
                spec_id = layered_id(_LAYER, ids.id_of(ids.RESOLVER_SPEC))
                resolvers = make_resolvers(servers, domains)
                await runtime.put(kinds.RESOLVER_SPEC, spec_id, resolvers, namespace=CONFIG_NAMESPACE)
            times = effective.time_servers(config)
            # The default is another layer's: one of the platform shall win over it.
            if tuple(times) != TIME_SERVERS:
                spec_id = layered_id(_LAYER, ids.id_of(ids.TIME_SERVER_SPEC))
                spec = TimeServerSpecSpec(ntp_servers=times, config_layer=_LAYER)
                await runtime.put(kinds.TIME_SERVER_SPEC, spec_id, spec, namespace=CONFIG_NAMESPACE)


def make_resolvers(servers: Sequence[str], domains: Sequence[str]) -> ResolverSpecSpec:
    """Resolvers by address."""
    addresses = [make_ip(ip_address(server)) for server in servers]
    return ResolverSpecSpec(
        dns_servers=addresses,
        name_servers=[NameServerSpec(addr=address) for address in addresses],
        search_domains=domains,
        config_layer=_LAYER,
    )


def make_stable_name(node_id: str) -> str:
    """``talos-xxx-yyy``: characters 1 to 6 of eight bytes of the id's digest in base 36.

    The number has no leading zeros, but each leading byte of the digest that is zero adds one.
    """
    digest = hashlib.sha256(node_id.encode()).digest()[:8]
    number, text = int.from_bytes(digest), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    text = "0" * (len(digest) - len(digest.lstrip(b"\0"))) + text
    return f"talos-{text[1:4]}-{text[4:7]}"


def make_address_name(address: Interface) -> str:
    """``talos-10-5-0-2``."""
    return f"talos-{str(address.ip).replace(':', '').replace('.', '-')}"
