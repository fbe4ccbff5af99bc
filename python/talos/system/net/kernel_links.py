"""The kernel's links, addresses and routes over netlink.

Requests are made with pyroute2; what the kernel has is read from the monitor's copies of its tables.
"""

import errno
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, override

import trio
from pyroute2.netlink import rtnl

from talos.system.net.addresses import make_address_attributes, parse_address
from talos.system.net.arp import announce
from talos.system.net.driver_settings import DriverChange
from talos.system.net.ethtool import Driver, DriverState, Identity
from talos.system.net.link_messages import is_whole, parse_link
from talos.system.net.links import (
    IFF_MULTICAST,
    RTN_UNICAST,
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
from talos.system.net.monitor import Monitor, Table, Watch
from talos.system.net.nftables import Chain, can_queue, has_table, replace_table, watch_removals
from talos.system.net.route_netlink import RouteNetlink
from talos.system.net.routes import make_route_attributes, parse_route, place_of
from talos.system.net.rules import make_rule_attributes, parse_rule
from talos.system.net.wireguard import WireguardChange, WireguardState, change_wireguard, read_wireguard

_ETHERNET_BYTES = 6
_KERNEL_PROTOCOLS = frozenset({2, 9})
"""RTPROT_KERNEL, which on-link prefixes have, too, and RTPROT_RA of <linux/rtnetlink.h>."""
_ALL_FAMILIES = 255
"""For routes: of AF_UNSPEC the kernel lists IPv4's only."""


class KernelLinks(Links):
    """The network configuration of this process's network namespace."""

    def __init__(self, kernel: RouteNetlink) -> None:
        self._kernel = kernel
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
            await self._change("link", "set", index=index, **changes)

    @override
    async def add_link(self, name: str, settings: Mapping[str, Any]) -> None:
        await self._change("link", "add", ifname=name, **settings)

    @override
    async def remove_link(self, index: int) -> None:
        await self._change("link", "del", tolerate=errno.ENODEV, index=index)

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
        await self._change("addr", "add", tolerate=errno.EEXIST, **make_address_attributes(address))
        if address.address.version == 6:
            # The kernel notifies of it when it has found no duplicate, a second later.
            self.monitor.mark_stale(Topic.ADDRESS)

    @override
    async def remove_address(self, address: AddressState) -> None:
        await self._change("addr", "del", tolerate=errno.EADDRNOTAVAIL, **make_address_attributes(address))

    @override
    async def announce(self, link: str, address: Address) -> None:
        hardware = next((known.hardware_address for known in await self.links() if known.name == link), b"")
        if len(hardware) == _ETHERNET_BYTES:
            await announce(link, hardware, address)

    @override
    async def add_route(self, route: RouteState) -> None:
        await self._change("route", "replace", **make_route_attributes(route))

    @override
    async def remove_route(self, route: RouteState) -> None:
        await self._change("route", "del", tolerate=errno.ESRCH, **make_route_attributes(route))

    @override
    async def add_rule(self, rule: RuleState) -> None:
        await self._change("rule", "add", tolerate=errno.EEXIST, **make_rule_attributes(rule))

    @override
    async def remove_rule(self, rule: RuleState) -> None:
        await self._change("rule", "del", tolerate=errno.ENOENT, **make_rule_attributes(rule))

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
    async def can_queue(self) -> bool:
        return can_queue()

    @override
    def watch_filter(self, table: str) -> AbstractAsyncContextManager[TableWatch]:
        return watch_removals(table)

    @override
    def watch(self, topics: Topic) -> AbstractAsyncContextManager[Watch]:
        """Yields once per burst of changes."""
        return self.monitor.watch(topics)

    def _make_tables(self) -> list[Table[Any]]:
        dump = self._kernel.dump
        return [
            Table(
                topic=Topic.LINK,
                groups=(rtnl.RTNLGRP_LINK,),
                added=rtnl.RTM_NEWLINK,
                removed=rtnl.RTM_DELLINK,
                parse=parse_link,
                key=_link_index,
                dump=partial(dump, "link"),
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
                dump=partial(dump, "addr", family=socket.AF_UNSPEC),
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
                dump=partial(dump, "route", family=_ALL_FAMILIES),
                is_learned=_is_learned,
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

    async def _dump_rules(self, take: Callable[[Any], object]) -> None:
        for family in (socket.AF_INET, socket.AF_INET6):
            await self._kernel.dump("rule", take, family=family)

    async def _change(self, what: str, verb: str, *, tolerate: int = 0, **attributes: Any) -> None:
        try:
            await self._kernel.change(what, verb, **attributes)
        except LinkError as error:
            # Perhaps the copy that the change was made from is wrong.
            self.monitor.mark_stale(~Topic(0))
            if error.errno != tolerate:
                raise


@asynccontextmanager
async def open_links() -> AsyncGenerator[KernelLinks]:
    """The kernel's links for as long as the context is open."""
    kernel = RouteNetlink()
    links = KernelLinks(kernel)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(links.monitor.run)
            yield links
            nursery.cancel_scope.cancel()
    finally:
        links.monitor.close()
        kernel.close()


def _link_index(link: LinkState) -> int:
    return link.index


def _is_learned(route: RouteState) -> bool:
    """Whether the kernel has it from a router's advertisement, or made it for an address of IPv6.

    A default route is not among them: it is what the node is connected by, and its routers are few.
    """
    return (
        route.family == socket.AF_INET6
        and route.protocol in _KERNEL_PROTOCOLS
        and route.type == RTN_UNICAST
        and route.destination is not None
    )


def _stale_after_link(old: LinkState, new: LinkState | None) -> Topic:
    """IPv4's routes over a link that goes down, or into or out of a VRF, are removed in silence."""
    if new is None or (old.is_up and not new.is_up) or old.master_index != new.master_index:
        return Topic.ROUTE
    return Topic(0)
