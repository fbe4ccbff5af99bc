"""Network links, addresses and routes of the kernel, behind a port with a twin for tests."""

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any, Protocol

from talos.system.net.driver_settings import DriverChange
from talos.system.net.ethtool import DriverState, Identity
from talos.system.net.nftables import Chain
from talos.system.net.wireguard import WireguardChange, WireguardState

type Address = IPv4Address | IPv6Address
type Interface = IPv4Interface | IPv6Interface
type Network = IPv4Network | IPv6Network

# <linux/if.h>
IFF_UP = 0x1
IFF_RUNNING = 0x40
IFF_MULTICAST = 0x1000
IFF_LOWER_UP = 0x10000
# <linux/if_arp.h>
ARPHRD_ETHER = 1
ARPHRD_LOOPBACK = 772
# <linux/rtnetlink.h>
RT_TABLE_MAIN = 254
RTPROT_STATIC = 4
RTN_UNICAST = 1
RT_SCOPE_UNIVERSE = 0
RTNH_F_ONLINK = 4
# <linux/if.h>, IF_OPER_*
OPER_DOWN = 2
OPER_UP = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """A network interface as the kernel has it; numbers are the kernel's, 0 where it has none."""

    index: int
    name: str
    type: int
    flags: int = 0
    hardware_address: bytes = b""
    permanent_address: bytes = b""
    broadcast_address: bytes = b""
    mtu: int = 0
    queue_disc: str = ""
    master_index: int = 0
    parent_index: int = 0
    operational_state: int = 0
    kind: str = ""
    slave_kind: str = ""
    alias: str = ""
    alternative_names: tuple[str, ...] = ()
    bus_path: str = ""
    carrier: bool = False
    settings: tuple[tuple[str, Any], ...] = ()
    """Those of its kind that a request can set, by the names that a request has for them."""

    @property
    def is_up(self) -> bool:
        """Whether it is switched on; which is independent of its carrier."""
        return bool(self.flags & IFF_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressState:
    """An address of an interface."""

    link_index: int
    address: Interface
    local: Address | None = None
    broadcast: Address | None = None
    anycast: Address | None = None
    multicast: Address | None = None
    scope: int = 0
    flags: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NextHop:
    """One of several ways of a route; of two, one with twice the weight gets twice as many flows."""

    gateway: Address | None = None
    link_index: int = 0
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteState:
    """A route; no destination means the default route."""

    family: int
    destination: Network | None = None
    gateway: Address | None = None
    source: Address | None = None
    link_index: int = 0
    table: int = RT_TABLE_MAIN
    priority: int = 0
    scope: int = RT_SCOPE_UNIVERSE
    type: int = RTN_UNICAST
    flags: int = 0
    protocol: int = RTPROT_STATIC
    mtu: int = 0
    next_hops: tuple[NextHop, ...] = ()
    """Instead of a gateway and a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """A rule that chooses the table in which a route is looked for."""

    family: int
    priority: int = 0
    source: Network | None = None
    destination: Network | None = None
    table: int = 0
    action: int = 0
    input_link: str = ""
    output_link: str = ""
    mark: int = 0
    mask: int = 0
    protocol: int = 0
    """Who made it, RTPROT_*; the kernel's own are of RTPROT_KERNEL."""


class Topic(enum.Flag):
    """What a watch is about."""

    LINK = enum.auto()
    ADDRESS = enum.auto()
    ROUTE = enum.auto()
    RULE = enum.auto()


class TableWatch(Protocol):
    """Removals from a table of packet filters by any process."""

    def __aiter__(self) -> AsyncIterator[None]:
        """Yields once per burst."""
        ...

    def forget(self) -> None:
        """Forget what was removed so far, such as by a transaction of this process."""
        ...


class LinkError(OSError):
    """The kernel refused a change; ``errno`` is the reason."""


class Links(Protocol):
    """The kernel's network configuration. Changes raise LinkError."""

    async def links(self) -> Sequence[LinkState]:
        """Every interface."""
        ...

    async def addresses(self) -> Sequence[AddressState]:
        """Every address."""
        ...

    async def routes(self) -> Sequence[RouteState]:
        """Every route of every table."""
        ...

    async def driver(self, name: str) -> DriverState:
        """What the driver of an interface reports; the defaults for one that isn't there."""
        ...

    async def rules(self) -> Sequence[RuleState]:
        """Every routing rule."""
        ...

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
        """Change what is given; master 0 means none. ``settings`` are those of the ``kind`` among them."""
        ...

    async def add_link(self, name: str, settings: Mapping[str, Any]) -> None:
        """Make a link of ``kind``; further settings are that kind's, ``link`` its parent's index."""
        ...

    async def remove_link(self, index: int) -> None:
        """Remove a link; nothing happens when it does not exist."""
        ...

    async def wireguard(self, name: str) -> WireguardState:
        """The keys and peers of a WireGuard link."""
        ...

    async def set_wireguard(self, name: str, change: WireguardChange) -> None:
        """Change keys and peers of a WireGuard link."""
        ...

    async def identity(self, name: str) -> Identity:
        """Which driver an interface has; empty for one that isn't there."""
        ...

    async def set_driver(self, name: str, change: DriverChange) -> None:
        """Change a driver's settings."""
        ...

    async def add_address(self, address: AddressState) -> None:
        """Add an address; nothing happens when it is there."""
        ...

    async def remove_address(self, address: AddressState) -> None:
        """Remove an address; nothing happens when it does not exist."""
        ...

    async def announce(self, link: str, address: Address) -> None:
        """Announce an address to all machines of a link. OSError."""
        ...

    async def add_route(self, route: RouteState) -> None:
        """Add a route or replace the one to the same place with the same priority."""
        ...

    async def remove_route(self, route: RouteState) -> None:
        """Remove a route; nothing happens when it does not exist."""
        ...

    async def add_rule(self, rule: RuleState) -> None:
        """Add a routing rule; nothing happens when it is there."""
        ...

    async def remove_rule(self, rule: RuleState) -> None:
        """Remove a routing rule; nothing happens when it does not exist."""
        ...

    async def replace_filter(self, table: str, chains: Sequence[Chain]) -> None:
        """Put chains in the place of those of a table of packet filters, in one transaction."""
        ...

    async def has_filter(self, table: str) -> bool:
        """Whether there is a table of packet filters of this name."""
        ...

    async def can_queue(self) -> bool:
        """Whether rules of packet filters may hand packets to a program."""
        ...

    def watch_filter(self, table: str) -> AbstractAsyncContextManager[TableWatch]:
        """Yields when something is removed from a table, from when the context is entered."""
        ...

    def watch(self, topics: Topic) -> AbstractAsyncContextManager[AsyncIterator[None]]:
        """Yields once per burst of changes, from when the context is entered."""
        ...
