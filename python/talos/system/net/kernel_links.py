"""The kernel's links, addresses and routes over netlink.

Requests go through pyroute2 on the daemon's asyncio side; what the kernel has is read from the monitor's
copies of its tables.
"""

import errno
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Protocol, override

import trio
from pyroute2 import AsyncIPRoute
from pyroute2.netlink import rtnl
from pyroute2.netlink.exceptions import NetlinkError

from talos.system.net.addresses import make_address_attributes, parse_address
from talos.system.net.arp import announce
from talos.system.net.driver_settings import DriverChange
from talos.system.net.ethtool import Driver, DriverState, Identity
from talos.system.net.link_messages import is_whole, parse_link
from talos.system.net.links import (
    IFF_MULTICAST,
    Address,
    AddressState,
    Damages,
    LinkError,
    Links,
    LinkState,
    RouteState,
    RuleState,
    Topic,
)
from talos.system.net.monitor import Monitor, Table, Watch
from talos.system.net.nftables import Chain, has_table, replace_table, watch_damages
from talos.system.net.routes import make_route_attributes, parse_route, place_of
from talos.system.net.rules import make_rule_attributes, parse_rule
from talos.system.net.wireguard import WireguardChange, WireguardState, change_wireguard, read_wireguard

_ETHERNET_BYTES = 6


class Bridge(Protocol):
    """The way from trio to asyncio, where pyroute2 lives."""

    async def call[**P, R](
        self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run a coroutine function over there and wait for its result."""
        ...


class KernelLinks(Links):
    """The network configuration of this process's network namespace."""

    def __init__(self, bridge: Bridge, route: AsyncIPRoute) -> None:
        self._bridge = bridge
        self._route: Any = route
        # The kernel refuses (EBUSY) a second dump on a socket whose first one is not read to its end.
        self._turn = trio.Lock()
        self.monitor = Monitor(self._make_tables())

    @override
    async def links(self) -> Sequence[LinkState]:
        return await self.monitor.read(Topic.LINK)

    @override
    async def addresses(self) -> Sequence[AddressState]:
        return await self.monitor.read(Topic.ADDRESS)

    @override
    async def routes(self) -> Sequence[RouteState]:
        """Every route of every table, without the kernel's cache."""
        return await self.monitor.read(Topic.ROUTE)

    @override
    async def driver(self, name: str) -> DriverState:
        """What the driver of an interface reports; a slow one keeps nothing else waiting."""
        return await trio.to_thread.run_sync(Driver(name).read)

    async def rules(self) -> Sequence[RuleState]:
        """Every routing rule of both versions of IP."""
        return await self.monitor.read(Topic.RULE)

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
        changes: dict[str, Any] = dict(settings or {})
        if master is not None:
            changes["master"] = master
        if hardware_address is not None:
            changes["address"] = hardware_address.hex(":")
        if up is not None:
            changes["state"] = "up" if up else "down"
        if mtu is not None:
            changes["mtu"] = mtu
        if alias is not None:
            changes["ifalias"] = alias
        if multicast is not None:
            changes |= {"flags": IFF_MULTICAST if multicast else 0, "change": IFF_MULTICAST}
        if changes:
            await self._change(self._route.link, "set", index=index, **changes)

    @override
    async def add_link(self, name: str, settings: Mapping[str, Any]) -> None:
        await self._change(self._route.link, "add", ifname=name, **settings)

    @override
    async def remove_link(self, index: int) -> None:
        await self._change(self._route.link, "del", tolerate=errno.ENODEV, index=index)

    @override
    async def wireguard(self, name: str) -> WireguardState:
        try:
            return read_wireguard(name)
        except OSError as error:
            raise LinkError(error.errno, f"get {name}: {error.strerror}") from None

    @override
    async def set_wireguard(self, name: str, change: WireguardChange) -> None:
        try:
            change_wireguard(name, change)
        except OSError as error:
            raise LinkError(error.errno, f"set {name}: {error.strerror}") from None

    @override
    async def identity(self, name: str) -> Identity:
        return await trio.to_thread.run_sync(Driver(name).identify)

    @override
    async def set_driver(self, name: str, change: DriverChange) -> None:
        try:
            await trio.to_thread.run_sync(Driver(name).change, change)
        except OSError as error:
            raise LinkError(error.errno, error.strerror) from None

    @override
    async def add_address(self, address: AddressState) -> None:
        await self._change(self._route.addr, "add", tolerate=errno.EEXIST, **make_address_attributes(address))
        if address.address.version == 6:
            # The kernel notifies of it when it has found no duplicate, a second later.
            self.monitor.mark_stale(Topic.ADDRESS)

    @override
    async def remove_address(self, address: AddressState) -> None:
        await self._change(
            self._route.addr, "del", tolerate=errno.EADDRNOTAVAIL, **make_address_attributes(address)
        )

    @override
    async def announce(self, link: str, address: Address) -> None:
        hardware = next((known.hardware_address for known in await self.links() if known.name == link), b"")
        if len(hardware) == _ETHERNET_BYTES:
            await announce(link, hardware, address)

    @override
    async def add_route(self, route: RouteState) -> None:
        await self._change(self._route.route, "replace", **make_route_attributes(route))

    @override
    async def remove_route(self, route: RouteState) -> None:
        await self._change(self._route.route, "del", tolerate=errno.ESRCH, **make_route_attributes(route))

    @override
    async def add_rule(self, rule: RuleState) -> None:
        await self._change(self._route.rule, "add", tolerate=errno.EEXIST, **make_rule_attributes(rule))

    @override
    async def remove_rule(self, rule: RuleState) -> None:
        await self._change(self._route.rule, "del", tolerate=errno.ENOENT, **make_rule_attributes(rule))

    @override
    async def replace_filter(self, table: str, chains: Sequence[Chain]) -> None:
        try:
            replace_table(table, chains)
        except OSError as error:
            raise LinkError(error.errno, f"nftables: {error.strerror}") from None

    @override
    async def has_filter(self, table: str) -> bool:
        return has_table(table)

    @override
    def watch_filter(self, table: str) -> AbstractAsyncContextManager[Damages]:
        return watch_damages(table)

    @override
    def watch(self, topics: Topic) -> AbstractAsyncContextManager[Watch]:
        """Yields once per burst of changes."""
        return self.monitor.watch(topics)

    def _make_tables(self) -> list[Table[Any]]:
        dump = self._dump
        return [
            Table(
                topic=Topic.LINK,
                groups=(rtnl.RTNLGRP_LINK,),
                added=rtnl.RTM_NEWLINK,
                removed=rtnl.RTM_DELLINK,
                parse=parse_link,
                key=_link_index,
                dump=lambda: dump(self._route.get_links),
                # A bridge notifies of its ports in the same way, with another family.
                family=socket.AF_UNSPEC,
                is_reported=is_whole,
                stales=_stale_after_link,
            ),
            Table(
                topic=Topic.ADDRESS,
                groups=(rtnl.RTNLGRP_IPV4_IFADDR, rtnl.RTNLGRP_IPV6_IFADDR),
                added=rtnl.RTM_NEWADDR,
                removed=rtnl.RTM_DELADDR,
                parse=parse_address,
                key=lambda address: (address.link_index, address.address),
                dump=lambda: dump(self._route.get_addr),
                # Routes with its address as their source go with it in silence.
                stales=lambda _, new: Topic(0) if new is not None else Topic.ROUTE,
            ),
            Table(
                topic=Topic.ROUTE,
                groups=(rtnl.RTNLGRP_IPV4_ROUTE, rtnl.RTNLGRP_IPV6_ROUTE),
                added=rtnl.RTM_NEWROUTE,
                removed=rtnl.RTM_DELROUTE,
                parse=parse_route,
                key=lambda route: (*place_of(route), route.type, route.gateway, route.link_index),
                place=place_of,
                dump=lambda: dump(self._route.get_routes),
                is_reported=lambda message: message.get("RTA_MULTIPATH") is None,
            ),
            Table(
                topic=Topic.RULE,
                groups=(rtnl.RTNLGRP_IPV4_RULE, rtnl.RTNLGRP_IPV6_RULE),
                added=rtnl.RTM_NEWRULE,
                removed=rtnl.RTM_DELRULE,
                parse=parse_rule,
                key=lambda rule: rule,
                dump=self._dump_rules,
            ),
        ]

    async def _dump_rules(self) -> list[Any]:
        found: list[Any] = []
        for family in (socket.AF_INET, socket.AF_INET6):
            found += await self._dump(partial(self._route.get_rules, family=family))
        return found

    async def _dump(self, request: Callable[..., Awaitable[Any]]) -> list[Any]:
        async def collect() -> list[Any]:
            return [message async for message in await request()]

        async with self._turn:
            return await self._bridge.call(collect)

    async def _change(
        self, request: Callable[..., Awaitable[Any]], verb: str, *, tolerate: int = 0, **attributes: Any
    ) -> None:
        async def ask() -> None:
            await request(verb, **attributes)

        try:
            given = ", ".join(f"{key}={value}" for key, value in attributes.items())
            with _refusals(f"{verb} {given}"):
                async with self._turn:
                    await self._bridge.call(ask)
        except LinkError as error:
            # Perhaps the copy that the change was made from is wrong.
            self.monitor.mark_stale(~Topic(0))
            if error.errno != tolerate:
                raise


@contextmanager
def _refusals(what: str) -> Generator[None]:
    try:
        yield
    except NetlinkError as error:
        code: int = error.code  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        raise LinkError(code, f"{what}: {os.strerror(code)}") from None


@asynccontextmanager
async def open_links(bridge: Bridge) -> AsyncGenerator[KernelLinks]:
    """The kernel's links for as long as the context is open."""

    async def connect() -> AsyncIPRoute:
        route = AsyncIPRoute()
        await route.setup_endpoint()
        return route

    route = await bridge.call(connect)

    async def close() -> None:
        # close() is a coroutine in some of pyroute2's classes and a function in others.
        pending: Any = route.close()
        if pending is not None:
            await pending

    links = KernelLinks(bridge, route)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(links.monitor.run)
            yield links
            nursery.cancel_scope.cancel()
    finally:
        links.monitor.close()
        with trio.CancelScope(shield=True):
            await bridge.call(close)


def _link_index(link: LinkState) -> int:
    return link.index


def _stale_after_link(old: LinkState, new: LinkState | None) -> Topic:
    """IPv4's routes over a link that goes down, or into or out of a VRF, are removed in silence."""
    if new is None or (old.is_up and not new.is_up) or old.master_index != new.master_index:
        return Topic.ROUTE
    return Topic(0)
