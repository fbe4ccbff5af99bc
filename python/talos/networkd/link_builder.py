"""Specs of links, addresses and routes, as documents and the main document's interfaces name them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any, cast

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    BondSlave,
    BridgeMasterSpec,
    BridgeSlave,
    LinkSpecSpec,
    LinkStatusSpec,
    PlatformConfigSpec,
    VLANSpec,
)
from talos.config.documents.network.wireguard import WireguardConfig
from talos.config.documents.v1alpha1.device import Device, DeviceWireguardConfig
from talos.networkd.bond_options import make_bond
from talos.networkd.cmdline import check_name
from talos.networkd.layers import ROUTE_METRIC
from talos.networkd.spec_makers import make_address, make_route, parse_table
from talos.networkd.wireguard import make_wireguard_spec
from talos.resource.addresses import operator_id, parse_interface, route_spec_id

LAYER = enums_pb2.CONFIG_MACHINE_CONFIGURATION
_VLAN_PROTOCOLS = {
    "802.1q": enums_pb2.VLAN_PROTOCOL8021_Q,
    "802.1ad": enums_pb2.VLAN_PROTOCOL8021_AD,
}
# Options of a bond whose names in the config are not the kernel's.
_BOND_NAMES = {
    "ad_lacp_active": "lacp_active",
    "arp_ip_targets": "arp_ip_target",
    "ns_ip6_targets": "ns_ip6_target",
    "tlb_logical_lb": "tlb_dynamic_lb",
    "peer_notify_delay": "peer_notif_delay",
    "bond_mode": "mode",
}
_NO_BOND_OPTIONS = frozenset(
    {"name", "hardware_addr", "links", "up", "mtu", "addresses", "routes", "multicast", "interfaces"}
    | {"device_selectors", "ad_actor_system"}
)


@dataclass(slots=True)
class DeviceConfig:
    """The links of a config."""

    specs: PlatformConfigSpec = field(default_factory=PlatformConfigSpec)
    ignored: frozenset[str] = frozenset()
    unicast: frozenset[str] = frozenset()
    """Links whose multicast is switched off, which a LinkSpec can't express."""
    problems: list[str] = field(default_factory=list[str])
    devices: Mapping[str, Device] = field(default_factory=dict[str, Device])
    """Items of ``machine.network.interfaces`` by the links that they mean, and their places in the list."""


class LinkBuilder:
    """Collects the specs of a config. A link may be named by several documents, and by its aliases.

    ``present`` are the links of the kernel, ``specs`` those of addresses, routes and operators.
    """

    def __init__(self, links: Mapping[str, LinkStatusSpec]) -> None:
        self.present = links
        self._aliases = {
            alias: name
            for name, link in links.items()
            for alias in (*link.alt_names, link.alias)
            if alias and alias not in links
        }
        self._links: dict[str, LinkSpecSpec] = {}
        self.specs = PlatformConfigSpec()
        self.ignored: set[str] = set()
        self.devices: dict[str, Device] = {}
        self._unicast: set[str] = set()
        self.problems: list[str] = []

    def attempt[T](self, where: str, add: Callable[[T], None], item: T) -> None:
        """Add an item; one that can't be is a problem, and keeps no other from being added."""
        try:
            add(item)
        except ValueError as error:
            self.problems.append(f"{where} ignored: {error}")

    def finish(self) -> DeviceConfig:
        """All that was added; of several addresses, routes or operators with one id the last one."""
        self.specs.links.extend(self._links.values())
        _keep_last(self.specs.addresses, lambda spec: f"{spec.link_name}/{parse_interface(spec.address)}")
        _keep_last(self.specs.routes, route_spec_id)
        _keep_last(self.specs.operators, operator_id)
        return DeviceConfig(
            specs=self.specs,
            ignored=frozenset(self.ignored),
            unicast=frozenset(self._unicast),
            problems=self.problems,
            devices=self.devices,
        )

    def resolve(self, name: str) -> str:
        """The link that an alias or another of its names stands for."""
        return self._aliases.get(name, name)

    def link(self, name: str, *, kind: str = "") -> LinkSpecSpec:
        """A link's spec, by any of its names; with ``kind`` one that the config makes."""
        if kind:
            check_name(name)
        else:
            name = self.resolve(name)
        spec = self._links.get(name)
        if spec is None:
            # A port of a bond may be configured by its own document as well: they are one link.
            spec = self._links[name] = LinkSpecSpec(name=name, up=True, config_layer=LAYER)
        if kind:
            if spec.kind:
                raise ValueError(f"link {name} is there already, as {spec.kind}")
            spec.logical, spec.kind, spec.type = True, kind, enums_pb2.LINK_ETHER
        return spec

    def configure(self, name: str, document: Any) -> None:
        """Settings, addresses and routes that the documents of all links have."""
        spec = self.link(name)
        name = spec.name
        if document.up is not None:
            spec.up = document.up
        if document.mtu:
            spec.mtu = document.mtu
        if document.multicast is not None:
            spec.multicast = document.multicast
            if not document.multicast:
                self._unicast.add(name)
        hardware = getattr(document, "hardware_addr", None)
        if hardware:
            spec.hardware_address = _parse_hardware(hardware)
        for item in document.addresses or ():
            address = ip_interface(item.address)
            priority = item.route_priority or 0
            self.specs.addresses.append(make_address(name, address, LAYER, priority=priority))
        for item in document.routes or ():
            self.specs.routes.append(
                make_route(
                    name,
                    ip_network(item.destination, strict=False) if item.destination else None,
                    ip_address(item.gateway) if item.gateway else None,
                    LAYER,
                    metric=item.metric or ROUTE_METRIC,
                    source=ip_address(item.source) if item.source else None,
                    table=parse_table(item.table),
                    mtu=item.mtu or 0,
                )
            )

    def make_vlan(self, name: str, parent: str, vid: int, mode: str) -> None:
        """A VLAN on a link."""
        if not 1 <= vid <= 4095:
            raise ValueError(f"VLAN {vid} is not between 1 and 4095")
        spec = self.link(name, kind="vlan")
        spec.parent_name = self.resolve(parent)
        spec.vlan.CopyFrom(VLANSpec(vid=vid, protocol=_VLAN_PROTOCOLS[mode]))

    def make_bond(self, name: str, links: Iterable[str], settings: Any) -> None:
        """A bond of links; ``settings`` is a document or a section of one with options as fields."""
        options: dict[str, str] = {}
        for setting in (item.name for item in fields(settings)):
            value = getattr(settings, setting)
            if setting not in _NO_BOND_OPTIONS and value not in (None, "", ()):
                key = _BOND_NAMES.get(setting, setting)
                options[key] = (
                    ";".join(cast("tuple[str, ...]", value))
                    if isinstance(value, tuple)
                    else str(_number_of(value))
                )
        if "primary" in options:
            options["primary"] = self.resolve(options["primary"])
        master = make_bond(options)
        self.link(name, kind="bond").bond_master.CopyFrom(master)
        for index, link in enumerate(links):
            self.link(link).bond_slave.CopyFrom(BondSlave(master_name=name, slave_index=index))

    def make_bridge(self, name: str, links: Iterable[str], stp: bool, filtering: bool) -> None:
        """A bridge of links."""
        master = BridgeMasterSpec()
        master.stp.enabled, master.vlan.filtering_enabled = stp, filtering
        self.link(name, kind="bridge").bridge_master.CopyFrom(master)
        for link in links:
            self.link(link).bridge_slave.CopyFrom(BridgeSlave(master_name=name))

    def make_wireguard(self, name: str, settings: WireguardConfig | DeviceWireguardConfig) -> None:
        """A WireGuard link."""
        wireguard = make_wireguard_spec(settings)
        spec = self.link(name, kind="wireguard")
        spec.type = enums_pb2.LINK_NONE
        spec.wireguard.CopyFrom(wireguard)


def _keep_last(specs: Any, key: Callable[[Any], str]) -> None:
    last = {key(spec): spec for spec in specs}
    if len(last) != len(specs):
        kept: Sequence[Any] = list(last.values())
        del specs[:]
        specs.extend(kept)


def _number_of(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _parse_hardware(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", "").replace("-", ""))
