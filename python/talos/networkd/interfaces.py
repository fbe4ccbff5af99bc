"""Links of the main document, ``machine.network.interfaces``."""

from dataclasses import replace
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from talos.config.documents.v1alpha1.device import Device, Vlan
from talos.config.documents.v1alpha1.device import Route as DeviceRoute
from talos.config.documents.v1alpha1.device_selector import NetworkDeviceSelector
from talos.networkd.controllers.link_status import is_physical
from talos.networkd.layers import ROUTE_METRIC
from talos.networkd.link_builder import LAYER, LinkBuilder
from talos.networkd.operators import make_device_operators
from talos.networkd.spec_makers import make_address, make_route
from talos.system.net.vlan_names import make_vlan_name


def add_interface(builder: LinkBuilder, index: int, device: Device) -> None:
    """Add the item of this index, for each of the links that it selects."""
    if device.device_selector:
        names = _select(builder, device.device_selector)
    else:
        names = [device.interface] if device.interface else []
    for number, name in enumerate(names):
        place = f"{name}/{index:03}/{number:03}" if len(names) > 1 else f"{name}/{index:03}"
        builder.devices[place] = replace(device, interface=name, device_selector=None)
        if device.ignore:
            builder.ignored.add(builder.resolve(name))
        else:
            _add_link(builder, name, device)


def _add_link(builder: LinkBuilder, name: str, device: Device) -> None:
    if device.bond:
        links = [*device.bond.interfaces]
        for selector in device.bond.device_selectors or ():
            links += [link for link in _select(builder, selector) if link not in links]
        builder.make_bond(name, links, device.bond)
    elif device.bridge:
        bridge = device.bridge
        filtering = bool(bridge.vlan and bridge.vlan.vlan_filtering)
        builder.make_bridge(name, bridge.interfaces, bool(bridge.stp and bridge.stp.enabled), filtering)
    elif device.dummy:
        builder.link(name, kind="dummy")
    elif device.wireguard:
        builder.make_wireguard(name, device.wireguard)
    spec = builder.link(name)
    if device.bridge_port and device.bridge_port.master:
        spec.bridge_slave.master_name = builder.resolve(device.bridge_port.master)
    _configure(builder, spec.name, device)
    for vlan in device.vlans or ():
        vlan_name = make_vlan_name(spec.name, vlan.vlan_id)
        builder.make_vlan(vlan_name, spec.name, vlan.vlan_id, "802.1q")
        _configure(builder, vlan_name, vlan)


def _configure(builder: LinkBuilder, name: str, device: Device | Vlan) -> None:
    if device.mtu:
        builder.link(name).mtu = device.mtu
    for text in (*(device.addresses or ()), *((device.cidr,) if device.cidr else ())):
        builder.specs.addresses.append(make_address(name, ip_interface(text), LAYER))
    for route in device.routes or ():
        builder.specs.routes.append(_make_device_route(name, route))
    builder.specs.operators.extend(make_device_operators(name, device))


def _select(builder: LinkBuilder, selector: NetworkDeviceSelector) -> list[str]:
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
    for name, link in builder.present.items():
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
        LAYER,
        metric=route.metric or ROUTE_METRIC,
        source=ip_address(route.source) if route.source else None,
        mtu=route.mtu or 0,
    )
