"""Defaults without configuration: the loopback link and public servers; addresses of the host's resolver."""

from ipaddress import ip_address, ip_interface

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    AddressSpecSpec,
    LinkSpecSpec,
    NameServerSpec,
    ResolverSpecSpec,
    TimeServerSpecSpec,
)
from talos.config.contract import NAMESERVERS, TIME_SERVERS
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.spec_makers import make_address
from talos.resource import ids, kinds
from talos.resource.addresses import make_address_id
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

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


class HostDNSAddressController(Reconciler):
    """HostDNSConfig → AddressSpec: pods reach the host's resolver by addresses on the loopback link."""

    name = "network.HostDNSAddressController"
    inputs = (Input(*ids.HOST_DNS_CONFIG),)
    outputs = (Output(kinds.ADDRESS_SPEC, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config."""
        layer = enums_pb2.CONFIG_DEFAULT
        config = await runtime.get_or_none(*ids.HOST_DNS_CONFIG)
        async with runtime.track_outputs():
            if config is None or not config.spec.enabled:
                return
            spec = config.spec
            for item in (spec.service_host_dns_address, spec.service_host_dns_address_v6):
                if not item.ip:
                    continue
                address = ip_interface(item.ip)
                wanted = make_address(LOOPBACK, address, layer)
                wanted.scope = enums_pb2.SCOPE_HOST
                spec_id = layered_id(layer, make_address_id(LOOPBACK, address))
                await runtime.put(kinds.ADDRESS_SPEC, spec_id, wanted, namespace=CONFIG_NAMESPACE)
