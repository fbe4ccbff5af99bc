"""Checks of the links in the main document's ``machine.network.interfaces``."""

from collections.abc import Iterator

from talos.config.check.forms import is_address, is_subnet_or_address
from talos.config.check.note import Note
from talos.config.check.wireguard import check_key
from talos.config.documents.network.bond import BondConfig
from talos.config.documents.v1alpha1.bond import Bond
from talos.config.documents.v1alpha1.device import Device, DeviceVIPConfig, DeviceWireguardConfig, Route, Vlan
from talos.config.documents.v1alpha1.device_selector import NetworkDeviceSelector
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.model import Config
from talos.config.schema import fields_of
from talos.config.values import AddressPort

_BALANCING = frozenset({"balance-tlb", "balance-alb"})
_BOND_MODES = fields_of(BondConfig)["bondMode"].setting.allowed
_BOND_CHOICES = {
    "mode": "bondMode",
    "xmitHashPolicy": "xmitHashPolicy",
    "lacpRate": "lacpRate",
    "arpValidate": "arpValidate",
    "arpAllTargets": "arpAllTargets",
    "primaryReselect": "primaryReselect",
    "failOverMac": "failOverMac",
    "adSelect": "adSelect",
}
"""Keys of a bond here and in a BondConfig, whose choices are the same."""


def check_devices(config: Config, machine: MachineConfig, at: Note) -> Iterator[Note]:
    """Checks of every link; a link belongs to one other at most."""
    devices = (machine.network and machine.network.interfaces) or ()
    owners: dict[str, str] = {}
    for index, device in enumerate(devices):
        place = at.below(f"[{index}]")
        if device.bond and device.bridge:
            yield place.find("is a bond and a bridge", hint="keep one")
        lower = device.bond.interfaces if device.bond else device.bridge.interfaces if device.bridge else ()
        for link in lower:
            if owners.setdefault(link, device.interface or "") != (device.interface or ""):
                yield place.find(f'"{link}" belongs to "{owners[link]}" already')
        for vip in _vips(device):
            if not config.machine_type.is_control_plane:
                yield place.below("vip").find("a virtual address belongs to control plane nodes")
            yield from _check_vip(vip, place.below("vip"))
    for index, device in enumerate(devices):
        if not device.ignore:
            yield from _check_device(device, owners, at.below(f"[{index}]"))


def _vips(device: Device) -> Iterator[DeviceVIPConfig]:
    if device.vip:
        yield device.vip
    for vlan in device.vlans or ():
        if vlan.vip:
            yield vlan.vip


def _check_vip(vip: DeviceVIPConfig, at: Note) -> Iterator[Note]:
    if not is_address(vip.ip or ""):
        yield at.below("ip").find(f'"{vip.ip or ""}" is no IP address')


def _check_device(device: Device, owners: dict[str, str], at: Note) -> Iterator[Note]:
    if not device.interface and device.device_selector is None:
        yield at.find("needs interface or deviceSelector")
    if device.interface and device.device_selector is not None:
        yield at.find("has interface and deviceSelector", hint="keep one")
    if device.device_selector == NetworkDeviceSelector():
        yield at.below("deviceSelector").find("is empty")
    if device.bond is not None:
        yield from _check_bond(device.bond, at.below("bond"))
    if device.wireguard is not None:
        yield from _check_wireguard(device.wireguard, at.below("wireguard"))
    addressed = device.dhcp or device.cidr or device.addresses or device.vip
    if device.interface in owners and addressed:
        yield at.find("is part of another link and has addresses", hint="give them to the other")
    for index, vlan in enumerate(device.vlans or ()):
        yield from _check_addresses(vlan, at.below(f"vlans[{index}]"))
        yield from _check_routes(vlan.routes, at.below(f"vlans[{index}].routes"))
    yield from _check_addresses(device, at)
    yield from _check_routes(device.routes or (), at.below("routes"))


def _check_addresses(link: Device | Vlan, at: Note) -> Iterator[Note]:
    if link.addresses and link.cidr:
        yield at.find("has cidr and addresses", hint="keep addresses")
    if link.cidr and not is_subnet_or_address(link.cidr):
        yield at.below("cidr").find(f'"{link.cidr}" is no address')
    for index, address in enumerate(link.addresses or ()):
        if not is_subnet_or_address(address):
            yield at.below(f"addresses[{index}]").find(f'"{address}" is no address')


def _check_routes(routes: tuple[Route, ...], at: Note) -> Iterator[Note]:
    for index, route in enumerate(routes):
        place = at.below(f"[{index}]")
        if route.network and ("/" not in route.network or not is_subnet_or_address(route.network)):
            yield place.below("network").find(f'"{route.network}" is no prefix')
        if route.gateway and not is_address(route.gateway):
            yield place.below("gateway").find(f'"{route.gateway}" is no IP address')
        if route.source and not is_address(route.source):
            yield place.below("source").find(f'"{route.source}" is no IP address')


def _check_wireguard(wireguard: DeviceWireguardConfig, at: Note) -> Iterator[Note]:
    yield from check_key(wireguard.private_key or "", at.below("privateKey"))
    for index, peer in enumerate(wireguard.peers or ()):
        place = at.below(f"peers[{index}]")
        yield from check_key(peer.public_key or "", place.below("publicKey"))
        if peer.endpoint:
            try:
                AddressPort.parse(peer.endpoint)
            except ValueError as error:
                yield place.below("endpoint").find(f"expected {error}")
        for number, prefix in enumerate(peer.allowed_ips or ()):
            if "/" not in prefix or not is_subnet_or_address(prefix):
                yield place.below(f"allowedIPs[{number}]").find(f'"{prefix}" is no prefix')


def _check_bond(bond: Bond, at: Note) -> Iterator[Note]:
    if bond.interfaces and bond.device_selectors:
        yield at.find("has interfaces and deviceSelectors", hint="keep one")
    for key, newer in _BOND_CHOICES.items():
        value = getattr(bond, fields_of(Bond)[key].name)
        allowed = fields_of(BondConfig)[newer].setting.allowed
        if (value or key == "mode") and value not in allowed:
            yield at.below(key).find(f'"{value}" is not allowed', hint=f"one of: {', '.join(allowed)}")
    for key, delay in (("updelay", bond.updelay), ("downdelay", bond.downdelay)):
        if delay and (not bond.miimon or delay % bond.miimon):
            yield at.below(key).find("is no multiple of miimon")
    if bond.arp_ip_target:
        yield at.below("arpIPTarget").find("is not supported")
    if bond.ad_actor_system:
        yield at.below("adActorSystem").find("is not supported")
    for key, value, modes in _bond_limits(bond):
        if value and bond.mode not in modes:
            yield at.below(key).find(f"is not for mode {bond.mode}", hint=f"only {', '.join(sorted(modes))}")


def _bond_limits(bond: Bond) -> Iterator[tuple[str, object, frozenset[str]]]:
    """Settings that only some modes have."""
    lacp, monitored = frozenset({"802.3ad"}), frozenset(_BOND_MODES) - _BALANCING - {"802.3ad"}
    yield "lacpRate", bond.lacp_rate, lacp
    yield "adActorSysPrio", bond.ad_actor_sys_prio, lacp
    yield "adUserPortKey", bond.ad_user_port_key, lacp
    yield "arpValidate", bond.arp_validate, monitored
    yield "arpInterval", bond.arp_interval, monitored
    yield "primary", bond.primary, _BALANCING | {"active-backup"}
    yield "packetsPerSlave", (bond.packets_per_slave or 0) > 1, frozenset({"balance-rr"})
    yield "tlbDynamicLb", bond.tlb_dynamic_lb, _BALANCING
