"""Specs of operators: what obtains addresses for a link, by DHCP or by an election among nodes."""

from ipaddress import ip_address

from talos.api.addresses import make_ip
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    ClientIdentifierSpec,
    DHCP4OperatorSpec,
    DHCP6OperatorSpec,
    OperatorSpecSpec,
    VIPOperatorSpec,
)
from talos.config.documents.network.dhcp4 import DHCPv4Config
from talos.config.documents.network.dhcp6 import DHCPv6Config
from talos.config.documents.v1alpha1.device import Device, DHCPOptions, Vlan
from talos.networkd.layers import ROUTE_METRIC
from talos.networkd.spec_makers import Layer

_CONFIG = enums_pb2.CONFIG_MACHINE_CONFIGURATION
_IDENTIFIERS = {
    "none": enums_pb2.CLIENT_IDENTIFIER_NONE,
    "mac": enums_pb2.CLIENT_IDENTIFIER_MAC,
    "duid": enums_pb2.CLIENT_IDENTIFIER_DUID,
}


def make_dhcp4(link: str, layer: Layer, *, metric: int = 0) -> OperatorSpecSpec:
    """DHCP for IPv4 on a link."""
    dhcp = DHCP4OperatorSpec(route_metric=metric or ROUTE_METRIC)
    dhcp.client_identifier.client_identifier = enums_pb2.CLIENT_IDENTIFIER_MAC
    return OperatorSpecSpec(
        operator=enums_pb2.OPERATOR_DHCP4, link_name=link, require_up=True, dhcp4=dhcp, config_layer=layer
    )


def make_dhcp6(link: str, layer: Layer, *, metric: int = 0) -> OperatorSpecSpec:
    """DHCP for IPv6 on a link."""
    dhcp = DHCP6OperatorSpec(route_metric=metric or 2 * ROUTE_METRIC)
    dhcp.client_identifier.client_identifier = enums_pb2.CLIENT_IDENTIFIER_MAC
    return OperatorSpecSpec(
        operator=enums_pb2.OPERATOR_DHCP6, link_name=link, require_up=True, dhcp6=dhcp, config_layer=layer
    )


def make_vip(link: str, address: str, layer: Layer, *, is_in_cloud: bool = False) -> OperatorSpecSpec:
    """An address that one of several nodes has at a time; ValueError when it is none.

    In Hetzner's cloud its API is called in place of an announcement. Its token stays in the config, as all
    readers see resources.
    """
    spec = OperatorSpecSpec(
        operator=enums_pb2.OPERATOR_VIP,
        link_name=link,
        require_up=True,
        vip=VIPOperatorSpec(ip=make_ip(ip_address(address)), gratuitous_arp=not is_in_cloud),
        config_layer=layer,
    )
    if is_in_cloud:
        spec.vip.h_cloud.SetInParent()
    return spec


def make_document_dhcp(link: str, document: DHCPv4Config | DHCPv6Config) -> OperatorSpecSpec:
    """DHCP as a document configures it."""
    identifier = ClientIdentifierSpec(
        client_identifier=_IDENTIFIERS[document.client_identifier or "mac"],
        duid_raw_hex=document.duid_raw or "",
    )
    metric, skip_hostname = document.route_metric or ROUTE_METRIC, bool(document.ignore_hostname)
    if isinstance(document, DHCPv6Config):
        spec = make_dhcp6(link, _CONFIG, metric=metric)
        spec.dhcp6.skip_hostname_request = skip_hostname
        spec.dhcp6.client_identifier.CopyFrom(identifier)
        return spec
    spec = make_dhcp4(link, _CONFIG, metric=metric)
    spec.dhcp4.skip_hostname_request = skip_hostname
    spec.dhcp4.skip_routes = bool(document.ignore_routes)
    spec.dhcp4.client_identifier.CopyFrom(identifier)
    return spec


def make_device_operators(link: str, device: Device | Vlan) -> list[OperatorSpecSpec]:
    """Those of a link of the main document; ValueError."""
    options = device.dhcp_options or DHCPOptions()
    specs: list[OperatorSpecSpec] = []
    if device.dhcp and options.ipv4 is not False:
        specs.append(make_dhcp4(link, _CONFIG, metric=options.route_metric))
    if device.dhcp and options.ipv6:
        spec = make_dhcp6(link, _CONFIG, metric=options.route_metric or ROUTE_METRIC)
        if options.duidv6:
            identifier = spec.dhcp6.client_identifier
            identifier.client_identifier = enums_pb2.CLIENT_IDENTIFIER_DUID
            identifier.duid_raw_hex = bytes.fromhex(options.duidv6.replace(":", "")).hex()
        specs.append(spec)
    if device.vip is not None and device.vip.ip:
        specs.append(make_vip(link, device.vip.ip, _CONFIG, is_in_cloud=device.vip.hcloud is not None))
    return specs
