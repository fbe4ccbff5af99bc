"""Addresses and routes, as every kind of link has them."""

from dataclasses import dataclass

from talos.config.schema import UINT32, Section, setting
from talos.config.values import Address, Prefix, RoutingTable


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressConfig(Section):
    """An address of a link."""

    address: Prefix = setting("address with prefix length", default=Prefix(""))
    route_priority: int | None = setting("priority of the address' route", bounds=UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteConfig(Section):
    """A route through a link."""

    destination: Prefix | None = setting("destination prefix; all when absent")
    gateway: Address | None = setting("next hop")
    source: Address | None = setting("source address of packets")
    metric: int | None = setting("priority of the route, lower wins", bounds=UINT32)
    mtu: int | None = setting("largest packet", bounds=UINT32)
    table: RoutingTable | None = setting("routing table")
