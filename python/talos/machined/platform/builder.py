"""The network config of a platform, part by part."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, ip_address, ip_interface, ip_network

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import network_pb2 as network
from talos.machined.platform.values import Fields, as_list, as_number, as_switch, parse_value
from talos.resource.addresses import family_of
from talos.system.errors import UserError
from talos.system.net.links import RTNH_F_ONLINK

METRIC, METRIC6 = 1024, 2048
METRICS = (0, 0xFFFFFFFF)
MTUS = (68, 65535)
VLANS = (1, 4094)
_DOMAIN = re.compile(r"[\w.-]{1,253}")

type Cards = Mapping[str, str]
"""Names of network cards by hardware address, such as ``02:00:00:00:00:01``, in the kernel's order."""


class NetworkBuilder:
    """Collects a machine's network and its metadata as the platform has them."""

    def __init__(self, cards: Cards) -> None:
        self.spec = network.PlatformConfigSpec()
        self.missing: list[str] = []
        """Cards that were named and are not there yet."""
        self._cards = cards

    def find_card(self, hardware: str) -> str:
        """The name of the card with this hardware address; empty while there is none."""
        wanted = hardware[:20].lower()
        found = self._cards.get(wanted, "")
        if not found:
            self._miss(wanted)
        return found

    def name_card(self, index: int) -> str:
        """The name of a card by its place; as long as there is none, the kernel's for it."""
        names = tuple(self._cards.values())
        if index < len(names):
            return names[index]
        self._miss(f"eth{index}")
        return f"eth{index}"

    def choose_card(self, hardware: object, index: int) -> str:
        """The name of the card with a hardware address, or by its place when the platform gives no address.

        Empty while there is no card with the address.
        """
        return self.find_card(str(hardware)) if hardware else self.name_card(index)

    def _miss(self, card: str) -> None:
        if card not in self.missing:
            self.missing.append(card)

    def add_link(self, name: str) -> network.LinkSpecSpec:
        """The link of this name, which is to be up; there is one of each name."""
        for link in self.spec.links:
            if link.name == name:
                return link
        return self.spec.links.add(name=name, up=True, config_layer=enums.CONFIG_PLATFORM)

    def add_address(self, link: str, text: str, where: str) -> None:
        """An address with the length of its prefix."""
        address = parse_value(lambda: ip_interface(text), f"{where}: address {text[:50]!r}")
        self.spec.addresses.add(
            address=make_prefix(address),
            link_name=link,
            family=family_of(address),
            scope=enums.SCOPE_GLOBAL,
            flags=enums.ADDRESS_PERMANENT,
            config_layer=enums.CONFIG_PLATFORM,
        )

    def add_route(self, link: str, route: Fields, where: str) -> None:
        """A route in netplan's words: ``to``, ``via``, ``metric``, ``table``, ``mtu``, ``from``."""
        to, via = str(route.get("to") or "default"), route.get("via")
        place = f"{where}: route to {to[:50]!r}"
        gateway = parse_value(lambda: ip_address(str(via)), place) if via else None
        destination = None
        if to not in {"default", "0.0.0.0/0", "::/0"}:
            destination = parse_value(lambda: ip_network(to, strict=False), place)
        if gateway is None and destination is None:
            raise UserError("a route needs a destination or a gateway", where=place)
        family = family_of(gateway or destination or IPv4Network(0))
        is_ipv4 = family == enums.FAMILY_INET4
        spec = self.spec.routes.add(
            family=family,
            out_link_name=link,
            table=enums.TABLE_MAIN,
            priority=as_number(route.get("metric") or 0, METRICS, place) or (METRIC if is_ipv4 else METRIC6),
            scope=enums.SCOPE_LINK if gateway is None and is_ipv4 else enums.SCOPE_GLOBAL,
            type=enums.TYPE_UNICAST,
            protocol=enums.PROTOCOL_STATIC,
            config_layer=enums.CONFIG_PLATFORM,
        )
        if route.get("table"):
            setattr(spec, "table", as_number(route["table"], METRICS, place))  # noqa: B010 - any number is a table's
        if as_switch(route.get("on-link"), place):
            spec.flags = RTNH_F_ONLINK
        if route.get("mtu"):
            spec.mtu = as_number(route["mtu"], MTUS, place)
        if destination is not None:
            spec.destination.CopyFrom(make_prefix(destination))
        if gateway is not None:
            spec.gateway.CopyFrom(make_ip(gateway))
        if route.get("from"):
            spec.source.CopyFrom(make_ip(parse_value(lambda: ip_interface(str(route["from"])).ip, place)))

    def add_dhcp4(self, link: str, metric: int = METRIC) -> None:
        """A DHCP client of IPv4 on a link."""
        spec = self._add_operator(link, enums.OPERATOR_DHCP4)
        spec.dhcp4.route_metric = metric
        spec.dhcp4.client_identifier.client_identifier = enums.CLIENT_IDENTIFIER_MAC

    def add_dhcp6(self, link: str) -> None:
        """A DHCP client of IPv6 on a link."""
        spec = self._add_operator(link, enums.OPERATOR_DHCP6)
        spec.dhcp6.route_metric = METRIC6
        spec.dhcp6.client_identifier.client_identifier = enums.CLIENT_IDENTIFIER_MAC

    def _add_operator(self, link: str, operator: enums.NetworkOperator) -> network.OperatorSpecSpec:
        return self.spec.operators.add(
            operator=operator, link_name=link, require_up=True, config_layer=enums.CONFIG_PLATFORM
        )

    def add_resolvers(self, servers: object, domains: object, where: str) -> None:
        """Addresses of name servers, and domains to search in: lists, or one of them."""
        addresses = [
            make_ip(
                parse_value(
                    lambda text=text: ip_address(str(text)), f"{where}: name server {str(text)[:50]!r}"
                )
            )
            for text in as_list(servers, where)
        ]
        search = [str(domain) for domain in as_list(domains, where) if _DOMAIN.fullmatch(str(domain))]
        if addresses or search:
            if not self.spec.resolvers:
                self.spec.resolvers.add(config_layer=enums.CONFIG_PLATFORM)
            resolvers = self.spec.resolvers[0]
            resolvers.dns_servers.extend(
                address for address in addresses if address not in resolvers.dns_servers
            )
            resolvers.search_domains.extend(search)

    def add_time_servers(self, *names: str) -> None:
        """Names or addresses of time servers."""
        if not self.spec.time_servers:
            self.spec.time_servers.add(config_layer=enums.CONFIG_PLATFORM)
        self.spec.time_servers[0].ntp_servers.extend(names)

    def add_external_addresses(self, texts: Iterable[str], where: str) -> None:
        """Addresses at which the machine is reached though no link has them; empty texts are none."""
        for text in filter(None, texts):
            address = parse_value(lambda text=text: ip_address(text), f"{where}: address {text[:50]!r}")
            self.spec.external_ips.append(make_ip(address))

    def set_hostname(self, name: str, where: str) -> None:
        """The machine's name, perhaps with its domain; an empty one is none."""
        if not name:
            return
        if not _DOMAIN.fullmatch(name):
            raise UserError(f"{name[:64]!r} is no host name", where=where)
        del self.spec.hostnames[:]
        host, _, domain = name.partition(".")
        self.spec.hostnames.add(hostname=host, domainname=domain, config_layer=enums.CONFIG_PLATFORM)
        self.spec.metadata.hostname = name
