"""The variables of OpenNebula about one network card, ``ETH0_IP`` and others."""

import re
from collections.abc import Mapping

from talos.machined.platform.builder import METRIC, METRICS, MTUS, NetworkBuilder
from talos.machined.platform.values import as_number
from talos.system.errors import UserError

FILE = "context.sh"
MASK, LENGTH = "255.255.255.0", "64"
"""Of networks without a length, as OpenNebula's own programs have it."""
_METHODS = ("static", "dhcp", "skip")
_METHODS6 = (*_METHODS, "auto", "disable")
_CARD = re.compile(r"ETH(\d{1,3})_[A-Z]")


def add_cards(variables: Mapping[str, str], builder: NetworkBuilder) -> None:
    """Add the cards in the order of their numbers. UserError: with the variable that has a mistake."""
    for number in sorted({int(match[1]) for name in variables if (match := _CARD.match(name))}):
        _Card(variables, number, builder).add()


class _Card:
    def __init__(self, variables: Mapping[str, str], number: int, builder: NetworkBuilder) -> None:
        self._variables, self._prefix, self._builder = variables, f"ETH{number}_", builder
        self._link = builder.choose_card(self._get("MAC"), number)

    def _get(self, name: str) -> str:
        return self._variables.get(self._prefix + name, "").strip()

    def _where(self, name: str) -> str:
        return f"{FILE}: {self._prefix}{name}"

    def _choose(self, name: str, methods: tuple[str, ...]) -> str:
        method = self._get(name) or "static"
        if method not in methods:
            raise UserError(f"{method[:20]!r} is none of {', '.join(methods)}", where=self._where(name))
        return method

    def add(self) -> None:
        """Add what the variables have, once the card is there."""
        if not self._link:
            return
        link = self._builder.add_link(self._link)
        if self._get("MTU"):
            link.mtu = as_number(self._get("MTU"), MTUS, self._where("MTU"))
        metric = as_number(self._get("METRIC") or METRIC, METRICS, self._where("METRIC"))
        match self._choose("METHOD", _METHODS):
            case "dhcp":
                self._builder.add_dhcp4(self._link, metric)
            case "static":
                self._add_static(metric)
            case _:
                pass
        match self._choose("IP6_METHOD", _METHODS6):
            case "dhcp":
                self._builder.add_dhcp6(self._link)
            case "static":
                self._add_static6(metric)
            case _:
                # Router advertisements are the kernel's.
                pass
        servers, domains = self._get("DNS").split(), self._get("SEARCH_DOMAIN").split()
        self._builder.add_resolvers(servers, domains, self._where("DNS"))
        pattern = re.compile(rf"{self._prefix}(ALIAS\d{{1,3}}_)")
        for alias in sorted({match[1] for name in self._variables if (match := pattern.match(name))}):
            # To an external one the cloud leads from outside; one with DETACH is going.
            if self._get(f"{alias}EXTERNAL").upper() != "YES" and not self._get(f"{alias}DETACH"):
                self._add_address(alias)
                self._add_addresses6(alias)

    def _add_static(self, metric: int) -> None:
        self._add_address("")
        if self._get("GATEWAY"):
            route = {"via": self._get("GATEWAY"), "metric": metric}
            self._builder.add_route(self._link, route, self._where("GATEWAY"))
        for text in filter(str.strip, self._get("ROUTES").split(",")):
            to, _, via = text.partition(" via ")
            route = {"to": to.strip(), "via": via.strip(), "metric": metric}
            self._builder.add_route(self._link, route, self._where("ROUTES"))

    def _add_static6(self, metric: int) -> None:
        self._add_addresses6("")
        gateway = self._get("IP6_GATEWAY") or self._get("GATEWAY6")
        if gateway:
            value = self._get("IP6_METRIC") or min(2 * metric, METRICS[1])
            route = {"via": gateway, "metric": as_number(value, METRICS, self._where("IP6_METRIC"))}
            self._builder.add_route(self._link, route, self._where("IP6_GATEWAY"))

    def _add_address(self, alias: str) -> None:
        address = self._get(f"{alias}IP")
        if address:
            mask = self._get(f"{alias}MASK") or self._get("MASK") or MASK
            self._builder.add_address(self._link, f"{address}/{mask}", self._where(f"{alias}IP"))

    def _add_addresses6(self, alias: str) -> None:
        length = self._get(f"{alias}IP6_PREFIX_LENGTH") or LENGTH
        for name in (f"{alias}IP6", f"{alias}IP6_ULA"):
            if self._get(name):
                self._builder.add_address(self._link, f"{self._get(name)}/{length}", self._where(name))
