"""The links that a config names: their addresses, their DHCP, and the links that are ports of others."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Protocol, runtime_checkable

from talos.config.documents.network.addressing import AddressConfig
from talos.config.documents.network.dhcp4 import DHCPv4Config
from talos.config.documents.network.dhcp6 import DHCPv6Config
from talos.config.documents.network.hcloud_vip import HCloudVIPConfig
from talos.config.documents.network.layer2_vip import Layer2VIPConfig
from talos.config.documents.network.link import LinkConfig
from talos.config.documents.v1alpha1.device import Device, DHCPOptions, Vlan
from talos.config.effective.sections import find_network
from talos.config.model import Config
from talos.config.schema import Form, Section, fields_of
from talos.system.net.vlan_names import make_vlan_name

type IPAddress = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUse:
    """What one place of a config does with a link; a link may have several."""

    name: str
    """Empty for an item of ``machine.network.interfaces`` that selects its links."""
    addresses: tuple[IPAddress, ...] = ()
    dhcp: frozenset[int] = frozenset()
    """Versions of IP."""
    ports: tuple[str, ...] = ()
    is_made: bool = False
    """Whether the config makes the link."""
    is_down: bool = False


def find_link_uses(config: Config) -> Iterator[LinkUse]:
    """All of a config, by what its documents and their sections have, whatever their kinds."""
    for document in config.documents:
        for part in _find_parts(document):
            if isinstance(part, _LinkSettings):
                yield LinkUse(
                    name=part.name,
                    addresses=tuple(ip_interface(item.address).ip for item in part.addresses or ()),
                    ports=part.links if isinstance(part, _WithPorts) else (),
                    is_made=not isinstance(document, LinkConfig),
                    is_down=part.up is False,
                )
        if isinstance(document, DHCPv4Config | DHCPv6Config):
            version = 4 if isinstance(document, DHCPv4Config) else 6
            yield LinkUse(name=document.name, dhcp=frozenset({version}))
        elif isinstance(document, Layer2VIPConfig | HCloudVIPConfig):
            yield LinkUse(name=document.link or "", addresses=(ip_address(document.name),))
    for device in find_network(config).interfaces or ():
        yield from _find_device_uses(device)


@runtime_checkable
class _LinkSettings(Protocol):
    """What all documents of links have, and the other end of a pair."""

    @property
    def name(self) -> str: ...
    @property
    def up(self) -> bool | None: ...
    @property
    def addresses(self) -> tuple[AddressConfig, ...] | None: ...


@runtime_checkable
class _WithPorts(Protocol):
    @property
    def links(self) -> tuple[str, ...]: ...


def _find_parts(section: Section) -> Iterator[Section]:
    yield section
    for field in fields_of(type(section)).values():
        part = getattr(section, field.name)
        if field.shape.form is Form.SECTION and part is not None:
            yield from _find_parts(part)


def _find_device_uses(device: Device) -> Iterator[LinkUse]:
    """Those of an item of ``machine.network.interfaces``."""
    name = device.interface or ""
    if device.ignore:
        yield LinkUse(name=name)
        return
    master = device.bond or device.bridge
    yield LinkUse(
        name=name,
        addresses=tuple(_find_addresses(device)),
        dhcp=_find_dhcp(device),
        ports=master.interfaces if master else (),
        is_made=bool(master or device.dummy or device.wireguard),
    )
    if device.bridge_port and device.bridge_port.master:
        yield LinkUse(name=device.bridge_port.master, ports=(name,))
    for vlan in device.vlans or ():
        yield LinkUse(
            name=make_vlan_name(name, vlan.vlan_id),
            addresses=tuple(_find_addresses(vlan)),
            dhcp=_find_dhcp(vlan),
            is_made=True,
        )


def _find_addresses(settings: Device | Vlan) -> Iterator[IPAddress]:
    for text in (*(settings.addresses or ()), *((settings.cidr,) if settings.cidr else ())):
        yield ip_interface(text).ip
    if settings.vip and settings.vip.ip:
        yield ip_address(settings.vip.ip)


def _find_dhcp(settings: Device | Vlan) -> frozenset[int]:
    options = settings.dhcp_options or DHCPOptions()
    versions = ((4, options.ipv4 is not False), (6, bool(options.ipv6)))
    return frozenset(version for version, is_used in versions if settings.dhcp and is_used)
