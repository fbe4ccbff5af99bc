"""A network in memory."""

import errno
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self, cast, override

from talos.system.net.driver_settings import DriverChange
from talos.system.net.ethtool import DriverState, Identity
from talos.system.net.links import (
    ARPHRD_ETHER,
    IFF_LOWER_UP,
    IFF_MULTICAST,
    IFF_RUNNING,
    IFF_UP,
    OPER_DOWN,
    OPER_UP,
    Address,
    AddressState,
    LinkError,
    Links,
    LinkState,
    RouteState,
    RuleState,
    TableWatch,
    Topic,
)
from talos.system.net.nftables import Chain
from talos.system.net.wireguard import WireguardChange, WireguardState
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

    def forget(self) -> None:
        """Forget what has happened."""
        self.event.clear()


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
        self._tunnels: dict[str, WireguardState] = {}
        self._watchers: list[_Watcher] = []
        self.filters: dict[str, tuple[Chain, ...]] = {}
        """Chains by their table."""
        self._damages: dict[str, _Watcher] = {}
        self.unknown_kinds = set[str]()
        """Kinds of links that this kernel lacks."""
        self.has_queues = True
        """Whether this kernel hands packets to programs."""
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
        multicast: bool | None = None,
        alias: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Change what is given."""
        link = self._links[index]
        if alias is not None:
            link = replace(link, alias=alias)
        if multicast is not None:
            link = replace(
                link, flags=link.flags | IFF_MULTICAST if multicast else link.flags & ~IFF_MULTICAST
            )
        if settings is not None:
            link = replace(link, settings=_join(link.settings, settings))
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
        given = "".join(f" {key}={value}" for key, value in (settings or {}).items() if key != "kind")
        self._changed(Topic.LINK, f"set {link.name} up={up} mtu={mtu}{joined}{given}")

    def plug(self, index: int, *, carrier: bool) -> None:
        """Plug a link's cable in, or pull it."""
        state = OPER_UP if carrier else OPER_DOWN
        self._links[index] = replace(self._links[index], carrier=carrier, operational_state=state)
        self._changed(Topic.LINK, f"carrier {carrier}")

    @override
    async def add_link(self, name: str, settings: Mapping[str, Any]) -> None:
        """Make a link."""
        if settings["kind"] in self.unknown_kinds:
            raise LinkError(errno.EOPNOTSUPP, "Operation not supported")
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
            settings=_join((), settings),
        )
        peer = settings.get("peer")
        if peer:
            self._links[index] = replace(self._links[index], parent_index=index + 1)
            other = replace(self._links[index], index=index + 1, name=peer["ifname"], parent_index=index)
            self._links[index + 1] = other
        text = " ".join(f"{key}={value}" for key, value in settings.items() if key != "link")
        self._changed(Topic.LINK, f"make {name} {text}")

    @override
    async def remove_link(self, index: int) -> None:
        """Remove a link with what is on it."""
        link = self._links.pop(index, None)
        if link is None:
            return
        if link.kind == "veth":
            self._links.pop(link.parent_index, None)
        for other in list(self._links.values()):
            if other.master_index == index:
                self._links[other.index] = replace(other, master_index=0, slave_kind="")
        self._addresses = [address for address in self._addresses if address.link_index != index]
        self._routes = [route for route in self._routes if route.link_index != index]
        self._changed(Topic.LINK | Topic.ADDRESS | Topic.ROUTE, f"unmake {link.name}")

    @override
    async def identity(self, name: str) -> Identity:
        """All are of virtio."""
        del name
        return Identity(driver="virtio_net", pci="1AF4:1000", speed=1000, port=0, duplex=1)

    @override
    async def set_driver(self, name: str, change: DriverChange) -> None:
        """Record the change."""
        self._changed(Topic(0), f"driver {name}: {change.describe()}")

    @override
    async def wireguard(self, name: str) -> WireguardState:
        """What was set."""
        return self._tunnels.get(name, WireguardState())

    @override
    async def set_wireguard(self, name: str, change: WireguardChange) -> None:
        """Set keys and peers."""
        old = self._tunnels.get(name, WireguardState())
        peers = {peer.public_key: peer for peer in old.peers if peer.public_key not in change.removed}
        peers |= {peer.public_key: peer for peer in change.peers}
        self._tunnels[name] = replace(
            old,
            private_key=old.private_key if change.private_key is None else change.private_key,
            listen_port=old.listen_port if change.listen_port is None else change.listen_port,
            mark=old.mark if change.mark is None else change.mark,
            peers=tuple(peers.values()),
        )
        self._changed(Topic(0), f"wireguard {name}: {change.describe()}")

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
    async def announce(self, link: str, address: Address) -> None:
        """Note it."""
        self.changes.append(f"announce {address} on {link}")

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
    async def replace_filter(self, table: str, chains: Sequence[Chain]) -> None:
        """Keep the chains."""
        self.filters[table] = tuple(chains)
        self._changed(Topic(0), f"filter {table}: {', '.join(chain.name for chain in chains)}")

    @override
    async def has_filter(self, table: str) -> bool:
        """Whether chains are kept."""
        return bool(self.filters.get(table))

    @override
    async def can_queue(self) -> bool:
        """As the kernel is set up."""
        return self.has_queues

    @override
    @asynccontextmanager
    async def watch_filter(self, table: str) -> AsyncGenerator[TableWatch]:
        """Yields once per burst of removals; a table has one watch."""
        self._damages[table] = _Watcher(Topic(0))
        yield self._damages[table]

    def remove_filter(self, table: str) -> None:
        """Remove the chains of a table, as another process can."""
        if self.filters.pop(table, ()) and table in self._damages:
            self._damages[table].event.set()

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


def _join(old: tuple[tuple[str, Any], ...], new: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Settings of a link's kind as the kernel reports them: lists as tuples."""
    joined: dict[str, Any] = dict(old)
    for key, value in new.items():
        if key not in {"kind", "link", "peer"}:
            joined[key] = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
    return tuple(sorted(joined.items()))
