"""Links of the machine config: ``machine.network.interfaces``, and the documents that replace it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
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
    VethSpec,
    VLANSpec,
    VRFMasterSpec,
    VRFSlave,
)
from talos.config.documents.network.blackhole_route import BlackholeRouteConfig
from talos.config.documents.network.bond import BondConfig
from talos.config.documents.network.bridge import BridgeConfig
from talos.config.documents.network.dhcp4 import DHCPv4Config
from talos.config.documents.network.dhcp6 import DHCPv6Config
from talos.config.documents.network.dummy_link import DummyLinkConfig
from talos.config.documents.network.layer2_vip import Layer2VIPConfig
from talos.config.documents.network.link import LinkConfig
from talos.config.documents.network.veth import VethConfig
from talos.config.documents.network.vlan import VLANConfig
from talos.config.documents.network.vrf import VRFConfig
from talos.config.documents.network.wireguard import WireguardConfig
from talos.config.documents.v1alpha1.device import Device, DeviceWireguardConfig, Vlan
from talos.config.documents.v1alpha1.device import Route as DeviceRoute
from talos.config.documents.v1alpha1.device_selector import NetworkDeviceSelector
from talos.config.model import Config
from talos.networkd.addresses import operator_id, parse_interface, route_spec_id
from talos.networkd.cmdline import check_name
from talos.networkd.controllers.link_status import is_physical
from talos.networkd.operators import make_device_operators, make_document_dhcp, make_vip
from talos.networkd.spec_makers import make_address, make_bond, make_route, parse_table
from talos.networkd.wireguard import make_wireguard_spec

_LAYER = enums_pb2.CONFIG_MACHINE_CONFIGURATION
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


def make_device_config(config: Config, links: Mapping[str, LinkStatusSpec]) -> DeviceConfig:
    """Everything about links; ``links`` are those that there are, for selectors."""
    builder = _Builder(links)
    machine = config.machine
    devices = (machine and machine.network and machine.network.interfaces) or ()
    for device in devices:
        builder.attempt(f"machine.network.interfaces {device.interface or ''}", builder.add_device, device)
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
        (BlackholeRouteConfig, builder.add_blackhole),
    )
    for kind, add in cast("tuple[tuple[Any, Callable[[Any], None]], ...]", adders):
        for document in config.find_all(kind):
            builder.attempt(f"{kind.kind} {document.name}", add, document)
    return builder.finish()


def find_link_facts(config: Config, links: Mapping[str, LinkStatusSpec]) -> tuple[tuple[object, ...], ...]:
    """All that a config's specs depend on beside the config: without selectors other names of links only."""
    devices = (config.machine and config.machine.network and config.machine.network.interfaces) or ()
    has_selectors = any(
        device.device_selector or (device.bond and device.bond.device_selectors) for device in devices
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


class _Builder:
    def __init__(self, links: Mapping[str, LinkStatusSpec]) -> None:
        self._there = links
        self._aliases = {
            alias: name
            for name, link in links.items()
            for alias in (*link.alt_names, link.alias)
            if alias and alias not in links
        }
        self._links: dict[str, LinkSpecSpec] = {}
        self._specs = PlatformConfigSpec()
        self._ignored: set[str] = set()
        self._unicast: set[str] = set()
        self._problems: list[str] = []

    def attempt[T](self, where: str, add: Callable[[T], None], item: T) -> None:
        try:
            add(item)
        except ValueError as error:
            self._problems.append(f"{where} ignored: {error}")

    def finish(self) -> DeviceConfig:
        self._specs.links.extend(self._links.values())
        _keep_last(self._specs.addresses, lambda spec: f"{spec.link_name}/{parse_interface(spec.address)}")
        _keep_last(self._specs.routes, route_spec_id)
        _keep_last(self._specs.operators, operator_id)
        return DeviceConfig(
            specs=self._specs,
            ignored=frozenset(self._ignored),
            unicast=frozenset(self._unicast),
            problems=self._problems,
        )

    def _resolve(self, name: str) -> str:
        """The link that an alias or another of its names stands for."""
        return self._aliases.get(name, name)

    def _link(self, name: str, *, kind: str = "") -> LinkSpecSpec:
        if kind:
            check_name(name)
        spec = self._links.get(name)
        if spec is None:
            # A port of a bond may be configured by its own document as well: they are one link.
            spec = self._links[name] = LinkSpecSpec(name=name, up=True, config_layer=_LAYER)
        if kind:
            if spec.kind:
                raise ValueError(f"link {name} is there already, as {spec.kind}")
            spec.logical, spec.kind, spec.type = True, kind, enums_pb2.LINK_ETHER
        return spec

    def _common(self, name: str, document: Any) -> LinkSpecSpec:
        name = self._resolve(name)
        spec = self._link(name)
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
            self._specs.addresses.append(make_address(name, address, _LAYER, priority=priority))
        for item in document.routes or ():
            self._specs.routes.append(
                make_route(
                    name,
                    ip_network(item.destination, strict=False) if item.destination else None,
                    ip_address(item.gateway) if item.gateway else None,
                    _LAYER,
                    metric=item.metric or 0,
                    source=ip_address(item.source) if item.source else None,
                    table=parse_table(item.table),
                    mtu=item.mtu or 0,
                )
            )
        return spec

    def add_plain(self, document: LinkConfig) -> None:
        self._common(document.name, document)

    def add_dummy(self, document: DummyLinkConfig) -> None:
        self._link(document.name, kind="dummy")
        self._common(document.name, document)

    def add_vlan(self, document: VLANConfig) -> None:
        self._make_vlan(document.name, document.parent, document.vlan_id, document.vlan_mode or "802.1q")
        self._common(document.name, document)

    def _make_vlan(self, name: str, parent: str, vid: int, mode: str) -> None:
        if not 1 <= vid <= 4095:
            raise ValueError(f"VLAN {vid} is not between 1 and 4095")
        spec = self._link(name, kind="vlan")
        spec.parent_name = self._resolve(parent)
        spec.vlan.CopyFrom(VLANSpec(vid=vid, protocol=_VLAN_PROTOCOLS[mode]))

    def add_bond(self, document: BondConfig) -> None:
        self._make_bond(document.name, document.links, document)
        self._common(document.name, document)

    def _make_bond(self, name: str, links: Iterable[str], settings: Any) -> None:
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
            options["primary"] = self._resolve(options["primary"])
        master = make_bond(options)
        self._link(name, kind="bond").bond_master.CopyFrom(master)
        for index, link in enumerate(map(self._resolve, links)):
            self._link(link).bond_slave.CopyFrom(BondSlave(master_name=name, slave_index=index))

    def add_bridge(self, document: BridgeConfig) -> None:
        stp = bool(document.stp and document.stp.enabled)
        self._make_bridge(document.name, document.links, stp, bool(document.vlan and document.vlan.filtering))
        self._common(document.name, document)

    def _make_bridge(self, name: str, links: Iterable[str], stp: bool, filtering: bool) -> None:
        master = BridgeMasterSpec()
        master.stp.enabled, master.vlan.filtering_enabled = stp, filtering
        self._link(name, kind="bridge").bridge_master.CopyFrom(master)
        for link in map(self._resolve, links):
            self._link(link).bridge_slave.CopyFrom(BridgeSlave(master_name=name))

    def add_vrf(self, document: VRFConfig) -> None:
        master = VRFMasterSpec()
        setattr(master, "table", parse_table(document.table))  # noqa: B010 - any number is a table's
        self._link(document.name, kind="vrf").vrf_master.CopyFrom(master)
        for link in map(self._resolve, document.links):
            self._link(link).vrf_slave.CopyFrom(VRFSlave(master_name=document.name))
        self._common(document.name, document)

    def add_veth(self, document: VethConfig) -> None:
        for name, peer, half in (
            (document.name, document.peer.name, document),
            (document.peer.name, document.name, document.peer),
        ):
            self._link(name, kind="veth").veth.CopyFrom(VethSpec(peer_name=peer))
            self._common(name, half)

    def add_wireguard(self, document: WireguardConfig) -> None:
        self._make_wireguard(document.name, document)
        self._common(document.name, document)

    def _make_wireguard(self, name: str, settings: WireguardConfig | DeviceWireguardConfig) -> None:
        wireguard = make_wireguard_spec(settings)
        spec = self._link(name, kind="wireguard")
        spec.type = enums_pb2.LINK_NONE
        spec.wireguard.CopyFrom(wireguard)

    def add_dhcp(self, document: DHCPv4Config | DHCPv6Config) -> None:
        name = self._link(document.name).name
        self._specs.operators.append(make_document_dhcp(name, document))

    def add_vip(self, document: Layer2VIPConfig) -> None:
        name = self._link(document.link or "").name
        self._specs.operators.append(make_vip(name, document.name, _LAYER))

    def add_blackhole(self, document: BlackholeRouteConfig) -> None:
        network = ip_network(document.name, strict=False)
        spec = make_route(
            "", network, None, _LAYER, metric=document.metric or 0, type=enums_pb2.TYPE_BLACKHOLE
        )
        self._specs.routes.append(spec)

    def add_device(self, device: Device) -> None:
        names = self._select(device.device_selector) if device.device_selector else [device.interface or ""]
        for name in map(self._resolve, filter(None, names)):
            if device.ignore:
                self._ignored.add(name)
            else:
                self._add_device(name, device)

    def _add_device(self, name: str, device: Device) -> None:
        if device.bond:
            links = [*device.bond.interfaces]
            for selector in device.bond.device_selectors or ():
                links += [link for link in self._select(selector) if link not in links]
            self._make_bond(name, links, device.bond)
        elif device.bridge:
            bridge = device.bridge
            filtering = bool(bridge.vlan and bridge.vlan.vlan_filtering)
            self._make_bridge(name, bridge.interfaces, bool(bridge.stp and bridge.stp.enabled), filtering)
        elif device.dummy:
            self._link(name, kind="dummy")
        elif device.wireguard:
            self._make_wireguard(name, device.wireguard)
        spec = self._link(name)
        if device.bridge_port and device.bridge_port.master:
            spec.bridge_slave.master_name = self._resolve(device.bridge_port.master)
        self._legacy(name, device)
        for vlan in device.vlans or ():
            vlan_name = f"{name}.{vlan.vlan_id}"
            self._make_vlan(vlan_name, name, vlan.vlan_id, "802.1q")
            self._legacy(vlan_name, vlan)

    def _legacy(self, name: str, device: Device | Vlan) -> None:
        if device.mtu:
            self._link(name).mtu = device.mtu
        for text in (*(device.addresses or ()), *((device.cidr,) if device.cidr else ())):
            self._specs.addresses.append(make_address(name, ip_interface(text), _LAYER))
        for route in device.routes or ():
            self._specs.routes.append(_make_device_route(name, route))
        self._specs.operators.extend(make_device_operators(name, device))

    def _select(self, selector: NetworkDeviceSelector) -> list[str]:
        wanted: dict[str, str | None] = {
            "hardware_addr": selector.hardware_addr,
            "permanent_addr": selector.permanent_addr,
            "bus_path": selector.bus_path,
            "pciid": selector.pci_id,
            "driver": selector.driver,
        }
        if not any(wanted.values()) and selector.physical is None:
            return []
        found: list[str] = []
        for name, link in self._there.items():
            # Logical links have the hardware address of their parent or first port.
            if link.kind and selector.physical is not False and not selector.driver:
                continue
            if selector.physical is not None and selector.physical != is_physical(link):
                continue
            if all(not pattern or _matches(getattr(link, key), pattern) for key, pattern in wanted.items()):
                found.append(name)
        return sorted(found)


def _matches(value: str | bytes, pattern: str) -> bool:
    text = value.hex(":") if isinstance(value, bytes) else value
    return bool(text) and fnmatchcase(text.lower(), pattern.lower())


def _make_device_route(name: str, route: DeviceRoute) -> Any:
    destination = ip_network(route.network, strict=False) if route.network else None
    gateway = ip_address(route.gateway) if route.gateway else None
    if destination is None and gateway is None:
        raise ValueError("a route needs a network or a gateway")
    return make_route(
        name,
        destination,
        gateway,
        _LAYER,
        metric=route.metric or 0,
        source=ip_address(route.source) if route.source else None,
        mtu=route.mtu or 0,
    )


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
