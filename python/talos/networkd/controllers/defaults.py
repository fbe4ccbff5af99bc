"""Defaults without configuration: the loopback link and public servers."""

from ipaddress import ip_address, ip_interface

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    AddressSpecSpec,
    LinkSpecSpec,
    NameServerSpec,
    ResolverSpecSpec,
    TimeServerSpecSpec,
)
from talos.config.contract import NAMESERVERS, TIME_SERVERS
from talos.networkd.addresses import make_address_id, make_ip, make_prefix
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Output, Reconciler

LOOPBACK = "lo"
LOOPBACK_ADDRESS = ip_interface("127.0.0.1/8")
RESOLVERS = tuple(map(ip_address, NAMESERVERS))


class DefaultsController(Reconciler):
    """Writes the specs of the lowest layer."""

    name = "network.DefaultsController"
    outputs = (
        Output(kinds.LINK_SPEC, shared=True),
        Output(kinds.ADDRESS_SPEC, shared=True),
        Output(kinds.RESOLVER_SPEC, shared=True),
        Output(kinds.TIME_SERVER_SPEC, shared=True),
    )

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the specs once; they never change."""
        layer = enums_pb2.CONFIG_DEFAULT
        link = LinkSpecSpec(name=LOOPBACK, up=True, type=enums_pb2.LINK_LOOPBCK, config_layer=layer)
        await runtime.put(
            kinds.LINK_SPEC,
            layered_id(layer, LOOPBACK),
            link,
            namespace=CONFIG_NAMESPACE,
        )
        address = AddressSpecSpec(
            address=make_prefix(LOOPBACK_ADDRESS),
            link_name=LOOPBACK,
            family=enums_pb2.FAMILY_INET4,
            scope=enums_pb2.SCOPE_HOST,
            flags=enums_pb2.ADDRESS_PERMANENT,
            config_layer=layer,
        )
        await runtime.put(
            kinds.ADDRESS_SPEC,
            layered_id(layer, make_address_id(LOOPBACK, LOOPBACK_ADDRESS)),
            address,
            namespace=CONFIG_NAMESPACE,
        )
        servers = [make_ip(server) for server in RESOLVERS]
        resolvers = ResolverSpecSpec(
            dns_servers=servers,
            name_servers=[NameServerSpec(addr=server) for server in servers],
            config_layer=layer,
        )
        await runtime.put(
            kinds.RESOLVER_SPEC,
            layered_id(layer, ids.id_of(ids.RESOLVER_SPEC)),
            resolvers,
            namespace=CONFIG_NAMESPACE,
        )
        times = TimeServerSpecSpec(ntp_servers=TIME_SERVERS, use_nts=True, config_layer=layer)
        await runtime.put(
            kinds.TIME_SERVER_SPEC,
            layered_id(layer, ids.id_of(ids.TIME_SERVER_SPEC)),
            times,
            namespace=CONFIG_NAMESPACE,
        )
