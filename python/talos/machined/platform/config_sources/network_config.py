"""The ``network-config`` of a nocloud seed, versions 1 and 2, as the network config of the platform."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address, ip_interface, ip_network
from typing import Any, cast

import yaml

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import network_pb2 as network
from talos.system.errors import UserError

FILE = "network-config"
MAX_ITEMS = 1024
"""Of one list or mapping: a text of aliases can stand for more than there is memory."""
METRIC, METRIC6 = 1024, 2048
_PERMANENT, _ON_LINK = 0x80, 4
"""Flags of addresses and routes, linux/if_addr.h and linux/rtnetlink.h."""
_LINK_NAME = re.compile(r"(?!\.{1,2}$)[^\s/:%\x00-\x20]{1,15}")
_MTU, _VLAN, _METRIC = (68, 65535), (1, 4094), (0, 0xFFFFFFFF)
_BOND_MODES = (
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
)
_HASHES = ("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4")
_RATES = ("slow", "fast")
_CHOICES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "mode": ("mode", _BOND_MODES),
    "xmit_hash_policy": ("hash_policy", _HASHES),
    "transmit_hash_policy": ("hash_policy", _HASHES),
    "lacp_rate": ("lacp_rate", _RATES),
}
_NUMBERS: Mapping[str, str] = {
    "miimon": "mii_mon",
    "mii_monitor_interval": "mii_mon",
    "updelay": "up_delay",
    "up_delay": "up_delay",
    "downdelay": "down_delay",
    "down_delay": "down_delay",
    "min_links": "min_links",
}
_DHCP4, _DHCP6 = frozenset({"dhcp", "dhcp4"}), frozenset({"dhcp6", "ipv6_dhcpv6-stateful", "ipv6_dhcpv6"})
_STATIC = frozenset({"static", "static6"})
_NOTHING = frozenset({"manual", "ipv6_slaac", "ipv6_dhcpv6-stateless"})
"""Router advertisements are the kernel's, whatever the config has."""

type _Mapping = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedNetwork:
    """The network of a seed."""

    spec: network.PlatformConfigSpec
    missing: tuple[str, ...]
    """Hardware addresses in it that no link has; what belongs to them has the names of the config."""


def parse_network_config(data: bytes, links: Mapping[str, str]) -> SeedNetwork:
    """The network of the seed; ``links`` maps hardware addresses such as ``02:00:00:00:00:01`` to names.

    UserError: with the place of the mistake.
    """
    try:
        document: object = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"this is no YAML: {error}".replace("\n", " ")[:200], where=FILE) from None
    config = _mapping(document, FILE)
    # Some tools write what netplan has, under its key.
    config = _mapping(config.get("network", config), FILE)
    parser = _Parser(links)
    match config.get("version"):
        case 1:
            parser.read_version1(config)
        case 2:
            parser.read_version2(config)
        case other:
            raise UserError(f"version {str(other)[:20]!r} is neither 1 nor 2", where=FILE)
    return SeedNetwork(spec=parser.spec, missing=tuple(dict.fromkeys(parser.missing)))


class _Parser:
    def __init__(self, links: Mapping[str, str]) -> None:
        self._there = links
        self._names: dict[str, str] = {}
        """Names of links in the config, and how those links are called here."""
        self.spec = network.PlatformConfigSpec()
        self.missing: list[str] = []

    def read_version1(self, config: _Mapping) -> None:
        items = [_mapping(item, f"{FILE}: config") for item in _list(config.get("config"), "config")]
        order = {"physical": 0, "bond": 1, "bridge": 1, "vlan": 2}
        for item in sorted(items, key=lambda item: order.get(str(item.get("type")), 3)):
            kind, where = item.get("type"), f"{FILE}: {str(item.get('name') or item.get('type'))[:40]}"
            if kind == "nameserver":
                self._add_resolvers(item.get("address"), item.get("search"), where)
            elif kind == "route":
                self._add_route(self._first_link(where), _route1(item), where)
            elif kind in order:
                self._add_link1(str(kind), item, where)
            elif kind != "loopback":
                raise UserError("this type is none that nodes know", where=where)

    def _add_link1(self, kind: str, item: _Mapping, where: str) -> None:
        name, is_new = str(item.get("name") or ""), kind != "physical"
        link = self._open(name, item.get("mac_address"), item, where, is_new=is_new)
        if kind == "bond":
            self._make_bond(link, item.get("bond_interfaces"), item.get("params"), where)
        elif kind == "bridge":
            self._make_bridge(link, item.get("bridge_interfaces"), item.get("params"), where)
        elif kind == "vlan":
            self._make_vlan(link, item.get("vlan_link"), item.get("vlan_id"), where)
        for subnet in _list(item.get("subnets"), where):
            self._add_subnet(link.name, _mapping(subnet, where), where)

    def _add_subnet(self, link: str, subnet: _Mapping, where: str) -> None:
        kind = str(subnet.get("type"))
        self._add_resolvers(subnet.get("dns_nameservers"), subnet.get("dns_search"), where)
        if kind in _DHCP4:
            self._add_dhcp(link, enums.OPERATOR_DHCP4)
        elif kind in _DHCP6:
            self._add_dhcp(link, enums.OPERATOR_DHCP6)
        elif kind in _STATIC:
            address, mask = str(subnet.get("address")), subnet.get("netmask")
            self._add_address(link, f"{address}/{mask}" if mask and "/" not in address else address, where)
            if subnet.get("gateway"):
                self._add_route(link, {"via": subnet["gateway"]}, where)
            for route in _list(subnet.get("routes"), where):
                self._add_route(link, _route1(_mapping(route, where)), where)
        elif kind not in _NOTHING:
            raise UserError(f"the subnet's type {kind[:20]!r} is none that nodes know", where=where)

    def read_version2(self, config: _Mapping) -> None:
        opened: list[tuple[network.LinkSpecSpec, _Mapping, str, str]] = []
        for kind in ("ethernets", "bonds", "bridges", "vlans"):
            for name, value in _mapping(config.get(kind) or {}, f"{FILE}: {kind}").items():
                where = f"{FILE}: {kind}.{str(name)[:40]}"
                item = _mapping(value or {}, where)
                match = _mapping(item.get("match") or {}, where)
                hardware = match.get("macaddress")
                link = self._open(str(name), hardware, item, where, is_new=kind != "ethernets")
                opened.append((link, item, kind, where))
        for link, item, kind, where in opened:
            if kind == "bonds":
                self._make_bond(link, item.get("interfaces"), item.get("parameters"), where)
            elif kind == "bridges":
                self._make_bridge(link, item.get("interfaces"), item.get("parameters"), where)
            elif kind == "vlans":
                self._make_vlan(link, item.get("link"), item.get("id"), where)
            self._add_settings2(link.name, item, where)

    def _add_settings2(self, link: str, item: _Mapping, where: str) -> None:
        overrides = _mapping(item.get("dhcp4-overrides") or {}, where)
        if item.get("dhcp4"):
            self._add_dhcp(link, enums.OPERATOR_DHCP4, overrides.get("route-metric"), where)
        if item.get("dhcp6"):
            self._add_dhcp(link, enums.OPERATOR_DHCP6)
        for address in _list(item.get("addresses"), where):
            # An address may have options of its own, which are about how it is shown.
            texts = cast("Iterable[object]", address) if isinstance(address, dict) else (address,)
            for text in texts:
                self._add_address(link, str(text), where)
        for key in ("gateway4", "gateway6"):
            if item.get(key):
                self._add_route(link, {"via": item[key]}, where)
        for route in _list(item.get("routes"), where):
            self._add_route(link, _mapping(route, where), where)
        servers = _mapping(item.get("nameservers") or {}, where)
        self._add_resolvers(servers.get("addresses"), servers.get("search"), where)

    def _open(
        self, name: str, hardware: object, item: _Mapping, where: str, *, is_new: bool
    ) -> network.LinkSpecSpec:
        """The link of a name: a device with the hardware address, if the config gives one."""
        found = ""
        if hardware and not is_new:
            wanted = str(hardware)[:20].lower()
            found = self._there.get(wanted, "")
            if not found:
                self.missing.append(wanted)
        actual = _check_name(found or name, where)
        self._names[name] = actual
        link = self._link(actual)
        if is_new:
            link.logical, link.type = True, enums.LINK_ETHER
            if hardware:
                link.hardware_address = _parse(lambda: bytes.fromhex(str(hardware).replace(":", "")), where)
        if item.get("mtu"):
            link.mtu = _number(item["mtu"], _MTU, f"{where}.mtu")
        return link

    def _link(self, name: str) -> network.LinkSpecSpec:
        for link in self.spec.links:
            if link.name == name:
                return link
        return self.spec.links.add(name=name, up=True, config_layer=enums.CONFIG_PLATFORM)

    def _resolve(self, name: object, where: str) -> str:
        return self._names.get(str(name)) or _check_name(str(name), where)

    def _first_link(self, where: str) -> str:
        if not self.spec.links:
            raise UserError("there is no link for it", where=where)
        return self.spec.links[0].name

    def _make_bond(self, link: network.LinkSpecSpec, ports: object, settings: object, where: str) -> None:
        link.kind = "bond"
        master = link.bond_master
        master.use_carrier, master.resend_igmp, master.num_peer_notif, master.lp_interval = True, 1, 1, 1
        master.packets_per_slave, master.tlb_dynamic_lb, master.missed_max = 1, 1, 2
        master.adlacp_active = enums.ADLACP_ACTIVE_ON
        for name, value in _mapping(settings or {}, where).items():
            key = str(name).removeprefix("bond-").removeprefix("bond_").replace("-", "_")
            if key in _CHOICES:
                field, choices = _CHOICES[key]
                text = str(value)
                if text not in choices and not (text.isdigit() and int(text[:3]) < len(choices)):
                    raise UserError(f"{key}: {text[:20]!r} is none of {', '.join(choices)}", where=where)
                setattr(master, field, choices.index(text) if text in choices else int(text))
            elif key in _NUMBERS:
                setattr(master, _NUMBERS[key], _number(value, _METRIC, f"{where}.{key}"))
            elif key == "primary":
                master.primary = self._resolve(value, where)
        if master.mode == enums.BOND_MODE8023_AD:
            master.ad_actor_sys_prio = 65535
        for index, port in enumerate(_list(ports, where)):
            slave = self._link(self._resolve(port, where)).bond_slave
            slave.master_name, slave.slave_index = link.name, index

    def _make_bridge(self, link: network.LinkSpecSpec, ports: object, settings: object, where: str) -> None:
        link.kind = "bridge"
        wanted = _mapping(settings or {}, where)
        link.bridge_master.stp.enabled = bool(wanted.get("stp", wanted.get("bridge_stp")))
        for port in _list(ports, where):
            self._link(self._resolve(port, where)).bridge_slave.master_name = link.name

    def _make_vlan(self, link: network.LinkSpecSpec, parent: object, number: object, where: str) -> None:
        link.kind, link.parent_name = "vlan", self._resolve(parent, where)
        link.vlan.vid = _number(number, _VLAN, f"{where}: VLAN")
        link.vlan.protocol = enums.VLAN_PROTOCOL8021_Q
        self._link(link.parent_name)

    def _add_address(self, link: str, text: str, where: str) -> None:
        address = _parse(lambda: ip_interface(text), f"{where}: address {text[:50]!r}")
        self.spec.addresses.add(
            address=make_prefix(address),
            link_name=link,
            family=_family(address.version),
            scope=enums.SCOPE_GLOBAL,
            flags=_PERMANENT,
            config_layer=enums.CONFIG_PLATFORM,
        )

    def _add_route(self, link: str, route: _Mapping, where: str) -> None:
        """A route in the words of version 2."""
        to, via = str(route.get("to") or "default"), route.get("via")
        place = f"{where}: route to {to[:50]!r}"
        gateway = _parse(lambda: ip_address(str(via)), place) if via else None
        destination = None
        if to not in {"default", "0.0.0.0/0", "::/0"}:
            destination = _parse(lambda: ip_network(to, strict=False), place)
        if gateway is None and destination is None:
            raise UserError("a route needs a destination or a gateway", where=place)
        version = (gateway or destination or IPv4Network(0)).version
        on_link = gateway is None and version == 4
        spec = self.spec.routes.add(
            family=_family(version),
            out_link_name=link,
            table=enums.TABLE_MAIN,
            priority=_number(route.get("metric") or 0, _METRIC, place)
            or (METRIC if version == 4 else METRIC6),
            scope=enums.SCOPE_LINK if on_link else enums.SCOPE_GLOBAL,
            type=enums.TYPE_UNICAST,
            protocol=enums.PROTOCOL_STATIC,
            config_layer=enums.CONFIG_PLATFORM,
        )
        if route.get("table"):
            setattr(spec, "table", _number(route["table"], _METRIC, place))  # noqa: B010 - any number is a table's
        if route.get("on-link"):
            spec.flags = _ON_LINK
        if route.get("mtu"):
            spec.mtu = _number(route["mtu"], _MTU, place)
        if destination is not None:
            spec.destination.CopyFrom(make_prefix(destination))
        if gateway is not None:
            spec.gateway.CopyFrom(make_ip(gateway))
        if route.get("from"):
            spec.source.CopyFrom(make_ip(_parse(lambda: ip_interface(str(route["from"])).ip, place)))

    def _add_dhcp(
        self, link: str, operator: enums.NetworkOperator, metric: object = None, where: str = FILE
    ) -> None:
        spec = self.spec.operators.add(
            operator=operator, link_name=link, require_up=True, config_layer=enums.CONFIG_PLATFORM
        )
        number = _number(metric or 0, _METRIC, where)
        if operator == enums.OPERATOR_DHCP4:
            spec.dhcp4.route_metric = number or METRIC
            spec.dhcp4.client_identifier.client_identifier = enums.CLIENT_IDENTIFIER_MAC
        else:
            spec.dhcp6.route_metric = number or METRIC6
            spec.dhcp6.client_identifier.client_identifier = enums.CLIENT_IDENTIFIER_MAC

    def _add_resolvers(self, servers: object, domains: object, where: str) -> None:
        addresses = [
            make_ip(
                _parse(lambda text=text: ip_address(str(text)), f"{where}: name server {str(text)[:50]!r}")
            )
            for text in _list(servers, where)
        ]
        search = [
            str(domain) for domain in _list(domains, where) if re.fullmatch(r"[\w.-]{1,253}", str(domain))
        ]
        if addresses or search:
            if not self.spec.resolvers:
                self.spec.resolvers.add(config_layer=enums.CONFIG_PLATFORM)
            resolvers = self.spec.resolvers[0]
            resolvers.dns_servers.extend(
                address for address in addresses if address not in resolvers.dns_servers
            )
            resolvers.search_domains.extend(search)


def _route1(route: _Mapping) -> _Mapping:
    """A route of version 1 in the words of version 2."""
    to = str(route.get("destination") or route.get("network") or "default")
    if route.get("netmask") and "/" not in to:
        to = f"{to}/{route['netmask']}"
    return {"to": to, "via": route.get("gateway"), "metric": route.get("metric")}


def _mapping(value: object, where: str) -> _Mapping:
    if not isinstance(value, dict):
        raise UserError("a mapping is expected here", where=where)
    found = cast("dict[str, Any]", value)
    if len(found) > MAX_ITEMS:
        raise UserError(f"more than {MAX_ITEMS} entries", where=where)
    return found


def _list(value: object, where: str) -> list[Any]:
    """A list; one value alone is one of its own, nothing is an empty one."""
    if value is None:
        return []
    found = cast("list[Any]", value) if isinstance(value, list) else [value]
    if len(found) > MAX_ITEMS:
        raise UserError(f"more than {MAX_ITEMS} entries", where=where)
    return found


def _parse[T](parse: Callable[[], T], where: str) -> T:
    try:
        return parse()
    except ValueError as error:
        raise UserError(str(error)[:200], where=where) from None


def _number(value: object, limits: tuple[int, int], where: str) -> int:
    minimum, maximum = limits
    text = str(value) if isinstance(value, int | str) else ""
    if not (text.isascii() and text.isdigit()) or not minimum <= int(text[:12]) <= maximum:
        raise UserError(f"{text[:20]!r} is not between {minimum} and {maximum}", where=where)
    return int(text)


def _check_name(text: str, where: str) -> str:
    if not _LINK_NAME.fullmatch(text):
        raise UserError(f"{text[:30]!r} is no link's name", where=where)
    return text


def _family(version: int) -> enums.NethelpersFamily:
    return enums.FAMILY_INET4 if version == 4 else enums.FAMILY_INET6
