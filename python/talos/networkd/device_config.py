"""Links of the machine config: ``machine.network.interfaces``, and the documents that replace it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_network
from typing import Any, cast

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import LinkStatusSpec, VethSpec, VRFMasterSpec, VRFSlave
from talos.config.documents.network.blackhole_route import BlackholeRouteConfig
from talos.config.documents.network.bond import BondConfig
from talos.config.documents.network.bridge import BridgeConfig
from talos.config.documents.network.dhcp4 import DHCPv4Config
from talos.config.documents.network.dhcp6 import DHCPv6Config
from talos.config.documents.network.dummy_link import DummyLinkConfig
from talos.config.documents.network.hcloud_vip import HCloudVIPConfig
from talos.config.documents.network.layer2_vip import Layer2VIPConfig
from talos.config.documents.network.link import LinkConfig
from talos.config.documents.network.veth import VethConfig
from talos.config.documents.network.vlan import VLANConfig
from talos.config.documents.network.vrf import VRFConfig
from talos.config.documents.network.wireguard import WireguardConfig
from talos.config.documents.v1alpha1.device import Device
from talos.config.model import Config
from talos.networkd.interfaces import add_interface
from talos.networkd.layers import ROUTE_METRIC
from talos.networkd.link_builder import LAYER, DeviceConfig, LinkBuilder
from talos.networkd.operators import make_document_dhcp, make_vip
from talos.networkd.spec_makers import make_route, parse_table


def make_device_config(config: Config, links: Mapping[str, LinkStatusSpec]) -> DeviceConfig:
    """Everything about links; ``links`` are those that there are, for selectors."""
    builder = _Documents(links)
    for index, device in enumerate(_interfaces(config)):
        where = f"machine.network.interfaces {device.interface or ''}"
        builder.attempt(where, partial(add_interface, builder, index), device)
    adders: tuple[tuple[type[Any], Callable[[Any], None]], ...] = (
        (LinkConfig, builder.add_plain),
        (DummyLinkConfig, builder.add_dummy),
        (VLANConfig, builder.add_vlan),
        (BondConfig, builder.add_bond),
        (BridgeConfig, builder.add_bridge),
        (VRFConfig, builder.add_vrf),
        (VethConfig, builder.add_veth),
        (WireguardConfig, builder.add_wireguard),
        (DHCPv4Config, builder.add_dhcp),
        (DHCPv6Config, builder.add_dhcp),
        (Layer2VIPConfig, builder.add_vip),
        (HCloudVIPConfig, builder.add_vip),
        (BlackholeRouteConfig, builder.add_blackhole),
    )
    for kind, add in cast("tuple[tuple[Any, Callable[[Any], None]], ...]", adders):
        for document in config.find_all(kind):
            builder.attempt(f"{kind.kind} {document.name}", add, document)
    return builder.finish()


def find_link_facts(config: Config, links: Mapping[str, LinkStatusSpec]) -> tuple[tuple[object, ...], ...]:
    """All that a config's specs depend on beside the config: without selectors other names of links only."""
    has_selectors = any(
        device.device_selector or (device.bond and device.bond.device_selectors)
        for device in _interfaces(config)
    )
    return tuple(
        (
            name,
            link.alias,
            *link.alt_names,
            *((getattr(link, field) for field in _SELECTED) if has_selectors else ()),
        )
        for name, link in links.items()
        if has_selectors or link.alias or link.alt_names
    )


_SELECTED = ("type", "kind", "hardware_addr", "permanent_addr", "bus_path", "pciid", "driver")


def _interfaces(config: Config) -> Sequence[Device]:
    machine = config.machine
    return (machine and machine.network and machine.network.interfaces) or ()


class _Documents(LinkBuilder):
    """Adds the documents of each kind."""

    def add_plain(self, document: LinkConfig) -> None:
        self.configure(document.name, document)

    def add_dummy(self, document: DummyLinkConfig) -> None:
        self.link(document.name, kind="dummy")
        self.configure(document.name, document)

    def add_vlan(self, document: VLANConfig) -> None:
        self.make_vlan(document.name, document.parent, document.vlan_id, document.vlan_mode or "802.1q")
        self.configure(document.name, document)

    def add_bond(self, document: BondConfig) -> None:
        self.make_bond(document.name, document.links, document)
        self.configure(document.name, document)

    def add_bridge(self, document: BridgeConfig) -> None:
        stp = bool(document.stp and document.stp.enabled)
        self.make_bridge(document.name, document.links, stp, bool(document.vlan and document.vlan.filtering))
        self.configure(document.name, document)

    def add_vrf(self, document: VRFConfig) -> None:
        master = VRFMasterSpec()
        setattr(master, "table", parse_table(document.table))  # noqa: B010 - any number is a table's
        self.link(document.name, kind="vrf").vrf_master.CopyFrom(master)
        for link in document.links:
            self.link(link).vrf_slave.CopyFrom(VRFSlave(master_name=document.name))
        self.configure(document.name, document)

    def add_veth(self, document: VethConfig) -> None:
        for name, peer, half in (
            (document.name, document.peer.name, document),
            (document.peer.name, document.name, document.peer),
        ):
            self.link(name, kind="veth").veth.CopyFrom(VethSpec(peer_name=peer))
            self.configure(name, half)

    def add_wireguard(self, document: WireguardConfig) -> None:
        self.make_wireguard(document.name, document)
        self.configure(document.name, document)

    def add_dhcp(self, document: DHCPv4Config | DHCPv6Config) -> None:
        name = self.link(document.name).name
        self.specs.operators.append(make_document_dhcp(name, document))

    def add_vip(self, document: Layer2VIPConfig | HCloudVIPConfig) -> None:
        name = self.link(document.link or "").name
        is_in_cloud = isinstance(document, HCloudVIPConfig)
        self.specs.operators.append(make_vip(name, document.name, LAYER, is_in_cloud=is_in_cloud))

    def add_blackhole(self, document: BlackholeRouteConfig) -> None:
        network = ip_network(document.name, strict=False)
        metric = document.metric or ROUTE_METRIC
        spec = make_route("", network, None, LAYER, metric=metric, type=enums_pb2.TYPE_BLACKHOLE)
        self.specs.routes.append(spec)
