"""The ``network-config`` of cloud-init, versions 1 and 2, of nocloud seeds and of clouds."""

from collections.abc import Iterable, Mapping
from typing import cast

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import network_pb2 as network
from talos.machined.platform.builder import METRIC, METRICS, MTUS, VLANS, NetworkBuilder
from talos.machined.platform.values import (
    Fields,
    as_fields,
    as_list,
    as_number,
    as_switch,
    check_link_name,
    is_link_name,
    parse_value,
    read_yaml,
)
from talos.system.errors import UserError

FILE = "network-config"
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


def read_network_config(data: bytes, builder: NetworkBuilder) -> None:
    """Add the network of a document in YAML. UserError: with the place of the mistake."""
    config = as_fields(read_yaml(data, FILE), FILE)
    # Some tools write what netplan has, under its key.
    config = as_fields(config.get("network", config), FILE)
    reader = NetworkReader(builder, FILE)
    match config.get("version"):
        case 1:
            reader.read_version1(config)
        case 2:
            reader.read_version2(config)
        case other:
            raise UserError(f"version {str(other)[:20]!r} is neither 1 nor 2", where=FILE)


class NetworkReader:
    """Adds the network of one document, ``file``. UserError: with the place of the mistake."""

    def __init__(self, builder: NetworkBuilder, file: str) -> None:
        self._builder, self._file = builder, file
        self._names: dict[str, str] = {}
        """Names of links in the config, and how those links are called here."""

    def read_version1(self, config: Fields) -> None:
        """A list of links, each with its subnets."""
        items = [
            as_fields(item, f"{self._file}: config")
            for item in as_list(config.get("config"), f"{self._file}: config")
        ]
        order = {"physical": 0, "bond": 1, "bridge": 1, "vlan": 2}
        for item in sorted(items, key=lambda item: order.get(str(item.get("type")), 3)):
            kind = str(item.get("type"))
            where = f"{self._file}: {str(item.get('name') or kind)[:40]}"
            if kind == "nameserver":
                self._builder.add_resolvers(item.get("address"), item.get("search"), where)
            elif kind == "route":
                self._builder.add_route(self._first_link(where), _route1(item), where)
            elif kind in order:
                self._add_link1(kind, item, where)
            elif kind != "loopback":
                raise UserError("this type is none that nodes know", where=where)

    def _add_link1(self, kind: str, item: Fields, where: str) -> None:
        name, is_new = str(item.get("name") or ""), kind != "physical"
        link = self._open(name, item.get("mac_address"), item, where, is_new=is_new)
        if kind == "bond":
            self._make_bond(link, item.get("bond_interfaces"), item.get("params"), where)
        elif kind == "bridge":
            self._make_bridge(link, item.get("bridge_interfaces"), item.get("params"), where)
        elif kind == "vlan":
            self._make_vlan(link, item.get("vlan_link"), item.get("vlan_id"), where)
        for subnet in as_list(item.get("subnets"), where):
            self._add_subnet(link.name, as_fields(subnet, where), where)

    def _add_subnet(self, link: str, subnet: Fields, where: str) -> None:
        kind = str(subnet.get("type"))
        self._builder.add_resolvers(subnet.get("dns_nameservers"), subnet.get("dns_search"), where)
        if kind in _DHCP4:
            self._builder.add_dhcp4(link)
        elif kind in _DHCP6:
            self._builder.add_dhcp6(link)
        elif kind in _STATIC:
            address, mask = str(subnet.get("address")), subnet.get("netmask")
            self._builder.add_address(
                link, f"{address}/{mask}" if mask and "/" not in address else address, where
            )
            if subnet.get("gateway"):
                self._builder.add_route(link, {"via": subnet["gateway"]}, where)
            for route in as_list(subnet.get("routes"), where):
                self._builder.add_route(link, _route1(as_fields(route, where)), where)
        elif kind not in _NOTHING:
            raise UserError(f"the subnet's type {kind[:20]!r} is none that nodes know", where=where)

    def read_version2(self, config: Fields) -> None:
        """Links by kind and name, as netplan has them."""
        opened: list[tuple[network.LinkSpecSpec, Fields, str, str]] = []
        for kind in ("ethernets", "bonds", "bridges", "vlans"):
            for name, value in as_fields(config.get(kind) or {}, f"{self._file}: {kind}").items():
                where = f"{self._file}: {kind}.{str(name)[:40]}"
                item = as_fields(value or {}, where)
                match = as_fields(item.get("match") or {}, where)
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

    def _add_settings2(self, link: str, item: Fields, where: str) -> None:
        overrides = as_fields(item.get("dhcp4-overrides") or {}, where)
        if as_switch(item.get("dhcp4"), f"{where}.dhcp4"):
            self._builder.add_dhcp4(link, as_number(overrides.get("route-metric") or METRIC, METRICS, where))
        if as_switch(item.get("dhcp6"), f"{where}.dhcp6"):
            self._builder.add_dhcp6(link)
        for address in as_list(item.get("addresses"), where):
            # An address may have options of its own, which are about how it is shown.
            texts = cast("Iterable[object]", address) if isinstance(address, dict) else (address,)
            for text in texts:
                self._builder.add_address(link, str(text), where)
        for key in ("gateway4", "gateway6"):
            if item.get(key):
                self._builder.add_route(link, {"via": item[key]}, where)
        for route in as_list(item.get("routes"), where):
            self._builder.add_route(link, as_fields(route, where), where)
        servers = as_fields(item.get("nameservers") or {}, where)
        self._builder.add_resolvers(servers.get("addresses"), servers.get("search"), where)

    def _open(
        self, name: str, hardware: object, item: Fields, where: str, *, is_new: bool
    ) -> network.LinkSpecSpec:
        """The link of a name: a device with the hardware address, if the config gives one."""
        found = self._builder.find_card(str(hardware)) if hardware and not is_new else ""
        if hardware and not is_new and not found and not is_link_name(name):
            # Until the card is there, its settings are those of a name that no other has.
            found = f"missing{len(self._names)}"
        actual = check_link_name(found or name, where)
        self._names[name] = actual
        link = self._builder.add_link(actual)
        if is_new:
            link.logical, link.type = True, enums.LINK_ETHER
            if hardware:
                link.hardware_address = parse_value(
                    lambda: bytes.fromhex(str(hardware).replace(":", "")), where
                )
        if item.get("mtu"):
            link.mtu = as_number(item["mtu"], MTUS, f"{where}.mtu")
        return link

    def _resolve(self, name: object, where: str) -> str:
        return self._names.get(str(name)) or check_link_name(str(name), where)

    def _first_link(self, where: str) -> str:
        links = self._builder.spec.links
        if not links:
            raise UserError("there is no link for it", where=where)
        return links[0].name

    def _make_bond(self, link: network.LinkSpecSpec, ports: object, settings: object, where: str) -> None:
        link.kind = "bond"
        master = link.bond_master
        master.use_carrier, master.resend_igmp, master.num_peer_notif, master.lp_interval = True, 1, 1, 1
        master.packets_per_slave, master.tlb_dynamic_lb, master.missed_max = 1, 1, 2
        master.adlacp_active = enums.ADLACP_ACTIVE_ON
        for name, value in as_fields(settings or {}, where).items():
            key = str(name).removeprefix("bond-").removeprefix("bond_").replace("-", "_")
            if key in _CHOICES:
                field, choices = _CHOICES[key]
                numbers = {text: index for index, name in enumerate(choices) for text in (name, str(index))}
                number = numbers.get(str(value))
                if number is None:
                    raise UserError(
                        f"{key}: {str(value)[:20]!r} is none of {', '.join(choices)}", where=where
                    )
                setattr(master, field, number)
            elif key in _NUMBERS:
                setattr(master, _NUMBERS[key], as_number(value, METRICS, f"{where}.{key}"))
            elif key == "primary":
                master.primary = self._resolve(value, where)
        if master.mode == enums.BOND_MODE8023_AD:
            master.ad_actor_sys_prio = 65535
        for index, port in enumerate(as_list(ports, where)):
            slave = self._builder.add_link(self._resolve(port, where)).bond_slave
            slave.master_name, slave.slave_index = link.name, index

    def _make_bridge(self, link: network.LinkSpecSpec, ports: object, settings: object, where: str) -> None:
        link.kind = "bridge"
        wanted = as_fields(settings or {}, where)
        link.bridge_master.stp.enabled = as_switch(
            wanted.get("stp", wanted.get("bridge_stp")), f"{where}.stp"
        )
        for port in as_list(ports, where):
            self._builder.add_link(self._resolve(port, where)).bridge_slave.master_name = link.name

    def _make_vlan(self, link: network.LinkSpecSpec, parent: object, number: object, where: str) -> None:
        link.kind, link.parent_name = "vlan", self._resolve(parent, where)
        link.vlan.vid = as_number(number, VLANS, f"{where}: VLAN")
        link.vlan.protocol = enums.VLAN_PROTOCOL8021_Q
        self._builder.add_link(link.parent_name)


def _route1(route: Fields) -> Fields:
    """A route of version 1 in the words of version 2."""
    to = str(route.get("destination") or route.get("network") or "default")
    if route.get("netmask") and "/" not in to:
        to = f"{to}/{route['netmask']}"
    return {"to": to, "via": route.get("gateway"), "metric": route.get("metric")}
