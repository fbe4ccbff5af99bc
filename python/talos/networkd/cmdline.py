"""Network settings of the kernel's command line: ``ip=``, ``bond=``, ``vlan=`` and the name.

``ip=client:server:gateway:netmask:hostname:device:autoconf:dns0:dns1:ntp0`` where all but the
first may be left out, addresses of IPv6 stand in brackets, and the device is the first one
unless it is named. ``ip=device:dhcp`` requests DHCP, which ``ip=dhcp`` does for all: that is
so anyway. ``bond=name:link,link:option=value,option=value:mtu``; ``vlan=name:parent``.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface

from talos.api.addresses import make_ip
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    BondSlave,
    LinkSpecSpec,
    NameServerSpec,
    PlatformConfigSpec,
    ResolverSpecSpec,
    TimeServerSpecSpec,
    VLANSpec,
)
from talos.networkd.bond_options import make_bond
from talos.networkd.operators import make_dhcp4
from talos.networkd.spec_makers import make_address, make_hostname, make_route
from talos.system.decimals import parse_decimal
from talos.system.net.links import Address
from talos.system.net.vlan_names import make_vlan_name
from talos.system.proc.cmdline import Cmdline

DEFAULT_BOND = "bond0"
DEFAULT_SLAVES = ("eth0", "eth1")
MTU_LIMITS = (68, 65535)
VLAN_LIMITS = (1, 4095)

_LAYER = enums_pb2.CONFIG_CMDLINE
_NAME = re.compile(r"[^\s/:%\x00-\x20]{1,15}")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_VLAN_NAME = re.compile(r"(?:.*\.|vlan)([0-9]{1,4})", re.ASCII)
_FIELDS = ("client", "server", "gateway", "netmask", "hostname", "device", "autoconf", "dns0", "dns1", "ntp0")
_BY_DHCP = frozenset({"dhcp", "on", "any"})
_STATIC = frozenset({"", "off", "none", "static"})
"""Supported methods to configure a link, out of those of the kernel."""


@dataclass(slots=True)
class CmdlineNetwork:
    """The network of the command line, and its malformed arguments."""

    config: PlatformConfigSpec = field(default_factory=PlatformConfigSpec)
    ignored: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list[str])


def parse_network(cmdline: Cmdline, first_link: str) -> CmdlineNetwork:
    """Everything about the network; settings without a device apply to ``first_link``, if there is one."""
    network = CmdlineNetwork(ignored=frozenset(filter(None, cmdline.all("talos.network.interface.ignore"))))
    names: dict[str, str] = {}
    _each(network, cmdline, "bond", lambda text: _add_bond(network.config, text))
    _each(network, cmdline, "vlan", lambda text: _add_vlan(network.config, text, names))
    _each(network, cmdline, "ip", lambda text: _add_ip(network.config, text, first_link, names))
    _each(network, cmdline, "talos.hostname", lambda text: _add_hostname(network.config, text, replace=True))
    return network


def _each(network: CmdlineNetwork, cmdline: Cmdline, name: str, add: Callable[[str], None]) -> None:
    for text in cmdline.all(name):
        try:
            add(text)
        except ValueError as error:
            network.problems.append(f"{name}={text} ignored: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """An ``ip=`` argument, read."""

    client: Address | None
    length: int
    gateway: Address | None
    hostname: str
    device: str
    by_dhcp: bool
    servers: list[Address]
    time_server: str


def _add_ip(config: PlatformConfigSpec, text: str, first_link: str, names: Mapping[str, str]) -> None:
    fields = split_fields(text)
    if len(fields) == 1 and fields[0] in _BY_DHCP | _STATIC - {""}:
        return
    if len(fields) == 2 and fields[1] in _BY_DHCP:
        fields = ["", "", "", "", "", fields[0], "dhcp"]
    if len(fields) > len(_FIELDS):
        raise ValueError(f"{len(fields)} fields instead of at most {len(_FIELDS)}")
    wanted = _read_ip(dict(zip(_FIELDS, [*fields, *[""] * (len(_FIELDS) - len(fields))], strict=True)))
    if wanted.hostname:
        _add_hostname(config, wanted.hostname)
    link = names.get(wanted.device, wanted.device) or first_link
    if link and (wanted.client is not None or wanted.by_dhcp):
        if not any(spec.name == link for spec in config.links):
            config.links.append(LinkSpecSpec(name=link, up=True, config_layer=_LAYER))
        if wanted.client is None:
            config.operators.append(make_dhcp4(link, _LAYER))
        else:
            address = ip_interface((wanted.client, wanted.length))
            config.addresses.append(make_address(link, address, _LAYER))
            if wanted.gateway is not None:
                config.routes.append(make_route(link, None, wanted.gateway, _LAYER))
    _add_servers(config, wanted.servers, wanted.time_server)


def _read_ip(found: Mapping[str, str]) -> _Address:
    autoconf, device = found["autoconf"], found["device"]
    if autoconf not in _BY_DHCP | _STATIC:
        raise ValueError(f"{autoconf!r} is no way to configure a link; use dhcp or off")
    client, gateway = _optional("client", found["client"]), _optional("gateway", found["gateway"])
    _optional("server", found["server"])
    servers = [server for name in ("dns0", "dns1") if (server := _optional(name, found[name])) is not None]
    by_dhcp = autoconf in _BY_DHCP
    if client is not None and gateway is not None and client.version != gateway.version:
        raise ValueError(f"{client} and {gateway} are of different families")
    if client is None and by_dhcp and not device:
        raise ValueError("DHCP without a device is what happens anyway")
    if client is None and not (by_dhcp or found["hostname"] or servers or found["ntp0"]):
        raise ValueError("neither an address nor anything else to set")
    _check_hostname(found["hostname"] or "none")
    return _Address(
        client=client,
        length=_parse_length(found["netmask"], client),
        gateway=gateway,
        hostname=found["hostname"],
        device=check_name(device) if device else "",
        by_dhcp=by_dhcp,
        servers=servers,
        time_server=_check_server(found["ntp0"]) if found["ntp0"] else "",
    )


def _add_servers(config: PlatformConfigSpec, servers: list[Address], time_server: str) -> None:
    if servers:
        if not config.resolvers:
            config.resolvers.append(ResolverSpecSpec(config_layer=_LAYER))
        config.resolvers[0].dns_servers.extend(map(make_ip, servers))
        config.resolvers[0].name_servers.extend(NameServerSpec(addr=make_ip(server)) for server in servers)
    if time_server:
        if not config.time_servers:
            config.time_servers.append(TimeServerSpecSpec(config_layer=_LAYER))
        config.time_servers[0].ntp_servers.append(time_server)


def _add_hostname(config: PlatformConfigSpec, text: str, *, replace: bool = False) -> None:
    _check_hostname(text)
    if replace or not config.hostnames:
        del config.hostnames[:]
        config.hostnames.append(make_hostname(text, _LAYER))


def _check_hostname(text: str) -> None:
    if not _HOSTNAME.fullmatch(text) or len(text) > 253:
        raise ValueError(f"{text!r} is no host's name")


def _check_server(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        _check_hostname(text)
    return text


def _add_bond(config: PlatformConfigSpec, text: str) -> None:
    name, slaves, options, mtu, *rest = [*text.split(":", 3), "", "", ""]
    # Only arp_ip_target of IPv6 could hold a colon, and that is another option: no more fields.
    if ":" in mtu or any(rest[1:]):
        raise ValueError("more than 4 fields")
    bond_name = check_name(name) if name else DEFAULT_BOND
    links = [check_name(slave) for slave in slaves.split(",")] if slaves else list(DEFAULT_SLAVES)
    if len(set(links)) != len(links) or bond_name in links:
        raise ValueError("a link is named twice")
    if any(spec.name == bond_name for spec in config.links):
        raise ValueError(f"{bond_name} is there already")
    settings: dict[str, str] = {}
    for option in filter(None, options.split(",")):
        key, sign, value = option.partition("=")
        if not sign or key in settings:
            raise ValueError(f"{option!r} is no option, or the second of its kind")
        settings[key] = value
    master = make_bond(settings)
    config.links.append(
        LinkSpecSpec(
            name=bond_name,
            logical=True,
            up=True,
            kind="bond",
            type=enums_pb2.LINK_ETHER,
            mtu=_parse_number("mtu", mtu, MTU_LIMITS) if mtu else 0,
            bond_master=master,
            config_layer=_LAYER,
        )
    )
    for index, link in enumerate(links):
        slave = BondSlave(master_name=bond_name, slave_index=index)
        config.links.append(LinkSpecSpec(name=link, up=True, bond_slave=slave, config_layer=_LAYER))


def _add_vlan(config: PlatformConfigSpec, text: str, names: dict[str, str]) -> None:
    name, sign, parent = text.partition(":")
    if not sign:
        raise ValueError("no parent; write name:parent")
    check_name(name)
    check_name(parent)
    found = _VLAN_NAME.fullmatch(name)
    if not found:
        raise ValueError(f"{name!r} names no VLAN; write {parent}.5 or vlan5")
    vid = _parse_number("VLAN", found[1], VLAN_LIMITS)
    link = make_vlan_name(parent, vid)
    if any(spec.name == link for spec in config.links):
        raise ValueError(f"{link} is there already")
    names[name] = link
    config.links.append(
        LinkSpecSpec(
            name=link,
            logical=True,
            up=True,
            kind="vlan",
            type=enums_pb2.LINK_ETHER,
            parent_name=parent,
            vlan=VLANSpec(vid=vid, protocol=enums_pb2.VLAN_PROTOCOL8021_Q),
            config_layer=_LAYER,
        )
    )
    if not any(spec.name == parent for spec in config.links):
        config.links.append(LinkSpecSpec(name=parent, up=True, config_layer=_LAYER))


def split_fields(text: str) -> list[str]:
    """The fields between colons; brackets hold an address of IPv6 together, and are taken off."""
    fields, rest = list[str](), text
    while True:
        if rest.startswith("["):
            inside, bracket, rest = rest[1:].partition("]")
            if not bracket or (rest and not rest.startswith(":")):
                raise ValueError("a bracket without its other end")
            IPv6Address(inside)
            fields.append(inside)
            more, rest = bool(rest), rest[1:]
        else:
            value, colon, rest = rest.partition(":")
            if "[" in value or "]" in value:
                raise ValueError("a bracket within a field")
            fields.append(value)
            more = bool(colon)
        if not more:
            return fields


def check_name(text: str) -> str:
    """A link's name as the kernel allows it; ValueError."""
    if not _NAME.fullmatch(text) or text in {".", ".."}:
        raise ValueError(f"{text!r} is no link's name")
    return text


def _optional(name: str, text: str) -> Address | None:
    if not text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(f"{name} {text!r} is no address") from None
    if address.is_unspecified:
        return None
    if address.is_multicast:
        raise ValueError(f"{name} {text!r} is no host's address")
    return address


def _parse_length(text: str, client: Address | None) -> int:
    maximum = 32 if client is None else client.max_prefixlen
    if not text:
        return maximum
    if text.isascii() and text.isdigit():
        return _parse_number("netmask", text, (0, maximum))
    try:
        mask = int(IPv6Address(text) if isinstance(client, IPv6Address) else IPv4Address(text))
    except ValueError:
        raise ValueError(f"netmask {text!r} is neither a mask nor a length") from None
    length = mask.bit_count()
    if mask != ((1 << length) - 1) << (maximum - length):
        raise ValueError(f"netmask {text!r} has holes")
    return length


def _parse_number(name: str, text: str, limits: tuple[int, int]) -> int:
    try:
        return parse_decimal(text, *limits)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None
