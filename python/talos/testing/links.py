"""A network in memory."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self, override

from talos.system.net.ethtool import DriverState
from talos.system.net.links import (
    ARPHRD_ETHER,
    IFF_LOWER_UP,
    IFF_RUNNING,
    IFF_UP,
    OPER_DOWN,
    OPER_UP,
    AddressState,
    LinkError,
    Links,
    LinkState,
    RouteState,
    RuleState,
    Topic,
)
from talos.system.wakeup import Wakeup


class _Watcher:
    """One watch of the twin; no generator, which would have to be closed."""

    def __init__(self, topics: Topic) -> None:
        self.topics = topics
        self.event = Wakeup()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> None:
        await self.event.wait()


class MemoryLinks(Links):
    """A list of links, addresses and routes, with the rules that matter.

    A link that goes up gets its carrier, an address brings the route to its network along,
    and a route to an unreachable gateway is refused as the kernel does.
    """

    def __init__(self, links: Sequence[LinkState]) -> None:
        self._links = {link.index: link for link in links}
        self._addresses: list[AddressState] = []
        self._routes: list[RouteState] = []
        tables = ((0, 255), (32766, 254), (32767, 253))
        self._rules = [
            RuleState(family=2, priority=priority, table=table, action=1, protocol=2)
            for priority, table in tables
        ]
        self._watchers: list[_Watcher] = []
        self.changes: list[str] = []
        """Every change made, as text."""

    @override
    async def links(self) -> Sequence[LinkState]:
        return tuple(self._links.values())

    @override
    async def addresses(self) -> Sequence[AddressState]:
        return tuple(self._addresses)

    @override
    async def routes(self) -> Sequence[RouteState]:
        """Every route."""
        return tuple(self._routes)

    @override
    async def driver(self, name: str) -> DriverState:
        """A fast one."""
        del name
        return DriverState(has_link=True, speed=1000, port=0, duplex=1, wake_on=1 << 5)

    @override
    async def rules(self) -> Sequence[RuleState]:
        """Those that every kernel begins with, and what was added."""
        return tuple(self._rules)

    @override
    async def add_rule(self, rule: RuleState) -> None:
        """Add a rule."""
        if rule not in self._rules:
            self._rules.append(rule)
            self._changed(Topic.RULE, f"rule {rule.priority}")

    @override
    async def remove_rule(self, rule: RuleState) -> None:
        """Remove a rule."""
        if rule in self._rules:
            self._rules.remove(rule)
            self._changed(Topic.RULE, f"unrule {rule.priority}")

    @override
    async def set_link(
        self,
        index: int,
        *,
        up: bool | None = None,
        mtu: int | None = None,
        master: int | None = None,
        hardware_address: bytes | None = None,
    ) -> None:
        """Change what is given."""
        link = self._links[index]
        if mtu is not None:
            link = replace(link, mtu=mtu)
        if hardware_address is not None:
            link = replace(link, hardware_address=hardware_address)
        if master is not None:
            kind = self._links[master].kind if master else ""
            if kind == "bond" and link.is_up:
                raise LinkError(1, "a bond takes only links that are off")
            link = replace(link, master_index=master, slave_kind=kind)
        if up is not None:
            on = IFF_UP | IFF_RUNNING | IFF_LOWER_UP
            link = replace(
                link,
                flags=link.flags | on if up else link.flags & ~on,
                operational_state=OPER_UP if up else OPER_DOWN,
                carrier=up,
            )
        self._links[index] = link
        joined = "" if master is None else f" master={self._links[master].name if master else None}"
        self._changed(Topic.LINK, f"set {link.name} up={up} mtu={mtu}{joined}")

    def plug(self, index: int, *, carrier: bool) -> None:
        """Plug a link's cable in, or pull it."""
        state = OPER_UP if carrier else OPER_DOWN
        self._links[index] = replace(self._links[index], carrier=carrier, operational_state=state)
        self._changed(Topic.LINK, f"carrier {carrier}")

    @override
    async def add_link(self, name: str, settings: Mapping[str, Any]) -> None:
        """Make a link."""
        if any(link.name == name for link in self._links.values()):
            raise LinkError(17, "File exists")
        index = max(self._links, default=0) + 1
        self._links[index] = LinkState(
            index=index,
            name=name,
            type=ARPHRD_ETHER,
            kind=settings["kind"],
            parent_index=settings.get("link", 0),
            hardware_address=bytes((2, 0, 0, 0, 0, index)),
            mtu=1500,
        )
        text = " ".join(f"{key}={value}" for key, value in settings.items() if key != "link")
        self._changed(Topic.LINK, f"make {name} {text}")

    @override
    async def remove_link(self, index: int) -> None:
        """Remove a link with what is on it."""
        link = self._links.pop(index, None)
        if link is None:
            return
        for other in list(self._links.values()):
            if other.master_index == index:
                self._links[other.index] = replace(other, master_index=0, slave_kind="")
        self._addresses = [address for address in self._addresses if address.link_index != index]
        self._routes = [route for route in self._routes if route.link_index != index]
        self._changed(Topic.LINK | Topic.ADDRESS | Topic.ROUTE, f"unmake {link.name}")

    @override
    async def add_address(self, address: AddressState) -> None:
        """Add an address and the route to its network."""
        if any(self._is_same_address(address, other) for other in self._addresses):
            return
        self._addresses.append(address)
        family = 2 if address.address.version == 4 else 10
        network = RouteState(
            family=family,
            destination=address.address.network,
            source=address.address.ip,
            link_index=address.link_index,
            protocol=2,
            scope=253,
        )
        self._routes.append(network)
        self._changed(Topic.ADDRESS | Topic.ROUTE, f"add {address.address}")

    @override
    async def remove_address(self, address: AddressState) -> None:
        """Remove an address and the route to its network."""
        self._addresses = [other for other in self._addresses if not self._is_same_address(address, other)]
        removed = (address.link_index, address.address.ip)
        self._routes = [route for route in self._routes if (route.link_index, route.source) != removed]
        self._changed(Topic.ADDRESS | Topic.ROUTE, f"remove {address.address}")

    @override
    async def add_route(self, route: RouteState) -> None:
        """Add or replace a route."""
        known = [item.destination for item in self._routes if item.destination is not None]
        if route.gateway is not None and not any(route.gateway in network for network in known):
            raise LinkError(101, "Network is unreachable")
        self._routes = [other for other in self._routes if not self._is_same_route(route, other)]
        self._routes.append(route)
        self._changed(Topic.ROUTE, f"route {route.destination or 'default'} via {route.gateway}")

    @override
    async def remove_route(self, route: RouteState) -> None:
        """Remove a route."""
        self._routes = [other for other in self._routes if not self._is_same_route(route, other)]
        self._changed(Topic.ROUTE, f"unroute {route.destination or 'default'} via {route.gateway}")

    @override
    @asynccontextmanager
    async def watch(self, topics: Topic) -> AsyncGenerator[AsyncIterator[None]]:
        """Yields once per burst of changes."""
        watcher = _Watcher(topics)
        self._watchers.append(watcher)
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)

    def _changed(self, topics: Topic, text: str) -> None:
        self.changes.append(text)
        for watcher in self._watchers:
            if watcher.topics & topics:
                watcher.event.set()

    @staticmethod
    def _is_same_address(left: AddressState, right: AddressState) -> bool:
        return left.link_index == right.link_index and left.address == right.address

    @staticmethod
    def _is_same_route(left: RouteState, right: RouteState) -> bool:
        key = (left.family, left.destination, left.table, left.priority)
        return key == (right.family, right.destination, right.table, right.priority)
