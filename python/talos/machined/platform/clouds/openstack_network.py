"""The ``network_data.json`` of OpenStack."""

from ipaddress import IPv6Address, ip_network
from typing import Any

from talos.machined.platform.builder import VLANS, NetworkBuilder
from talos.machined.platform.clouds.network_config import NetworkReader
from talos.machined.platform.values import (
    Fields,
    as_fields,
    as_list,
    as_number,
    as_text,
    items_of,
    parse_value,
    read_fields,
)
from talos.system.errors import UserError
from talos.system.net.vlan_names import make_vlan_name

NETWORK_DATA = "network_data.json"
_DHCP = {"ipv4_dhcp": "dhcp4", "ipv6_dhcp": "dhcp6", "ipv6_dhcpv6-stateful": "dhcp6"}
_OTHERS = frozenset({"ipv4", "ipv6", "ipv6_slaac", "ipv6_dhcpv6-stateless"})
"""Their addresses are in the document, or come by router advertisements, which are the kernel's."""


def read_network_data(data: bytes, builder: NetworkBuilder) -> None:
    """Add the network of the document. UserError: with the place of the mistake."""
    document = read_fields(data, NETWORK_DATA)
    translation = _Translation(builder)
    order = {"bond": 1, "vlan": 2}
    for link in sorted(_list(document, "links"), key=lambda link: order.get(str(link.get("type")), 0)):
        translation.add_link(link)
    for network in _list(document, "networks"):
        translation.add_network(network)
    NetworkReader(builder, NETWORK_DATA).read_version2(translation.config)
    for fields in (document, *_list(document, "networks")):
        for service in _list(fields, "services"):
            if service.get("type") == "dns":
                builder.add_resolvers(service.get("address"), None, NETWORK_DATA)


class _Translation:
    """What is in the document in the words of version 2 of network-config, links by their names here."""

    def __init__(self, builder: NetworkBuilder) -> None:
        self.config: dict[str, dict[str, dict[str, Any]]] = {"ethernets": {}, "bonds": {}, "vlans": {}}
        self._builder = builder
        self._names: dict[str, str] = {}
        """By id in the document: that is what the link has on the host, such as ``tapf7f00564-60``."""

    def add_link(self, link: Fields) -> None:
        identity = as_text(link.get("id"), f"{NETWORK_DATA}: id of a link")
        where = f"{NETWORK_DATA}: link {identity[:40]}"
        hardware = link.get("vlan_mac_address") or link.get("ethernet_mac_address")
        item: dict[str, Any] = {"mtu": link.get("mtu"), "match": {"macaddress": hardware}}
        if link.get("type") == "bond":
            kind, name = "bonds", f"bond{len(self.config['bonds'])}"
            item["interfaces"] = [self._find(port, where) for port in as_list(link.get("bond_links"), where)]
            item["parameters"] = {key: link[key] for key in link if key.startswith("bond_")}
            # The specification of the document has this mistake in its example.
            if link.get("bond_mode") == "802.1ad":
                item["parameters"]["bond_mode"] = "802.3ad"
        elif link.get("type") == "vlan":
            parent = self._find(link.get("vlan_link"), where)
            number = as_number(link.get("vlan_id"), VLANS, f"{where}: VLAN")
            kind, name = "vlans", make_vlan_name(parent, number)
            item |= {"link": parent, "id": number}
        else:
            kind, item["match"] = "ethernets", None
            number = len(self.config["ethernets"])
            # Until the card is there, its settings are those of a name that no other has.
            name = self._builder.find_card(str(hardware)) or f"missing{number}" if hardware else identity
        self._names[identity] = name
        self.config[kind][name] = item | {"addresses": [], "routes": []}

    def add_network(self, network: Fields) -> None:
        where = f"{NETWORK_DATA}: network {str(network.get('id'))[:40]!r}"
        name = self._find(network.get("link"), where)
        item = next(items[name] for items in self.config.values() if name in items)
        kind = str(network.get("type"))
        if kind in _DHCP:
            item[_DHCP[kind]] = True
        elif kind not in _OTHERS:
            raise UserError(f"the type {kind[:20]!r} is none that nodes know", where=where)
        if network.get("ip_address"):
            item["addresses"].append(_join(network["ip_address"], network.get("netmask"), where))
        if network.get("gateway"):
            item["routes"].append({"via": network["gateway"]})
        for value in as_list(network.get("routes"), where):
            route = as_fields(value, where)
            target = _join(route.get("network"), route.get("netmask"), where)
            item["routes"].append({"to": target, "via": route.get("gateway")})

    def _find(self, identity: object, where: str) -> str:
        name = self._names.get(str(identity))
        if name is None:
            raise UserError(f"there is no link {str(identity)[:40]!r}", where=where)
        return name


def _list(fields: Fields, name: str) -> list[Fields]:
    return items_of(fields.get(name), f"{NETWORK_DATA}: {name}")


def _join(address: object, mask: object, where: str) -> str:
    """An address with the length of its prefix."""
    text, length = str(address), str(mask or "")
    if length and "/" not in text:
        length = str(parse_value(lambda: _measure(length), f"{where}: netmask"))
        return f"{text}/{length}"
    return text


def _measure(mask: str) -> int:
    """The length of a prefix by its mask; that of IPv6 is no part of what the library reads."""
    if ":" not in mask:
        return int(mask) if mask.isdigit() else ip_network(f"0.0.0.0/{mask}").prefixlen
    bits = int(IPv6Address(mask))
    length = bits.bit_count()
    if bits != ((1 << length) - 1) << (128 - length):
        raise ValueError(f"{mask!r} is no netmask")
    return length
