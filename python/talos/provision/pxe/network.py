"""Where the boot server stands: an interface and its IPv4 address."""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

from talos.system.errors import UserError
from talos.system.net import interfaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The addresses that a DHCP server of our own gives away, both ends included."""

    first: IPv4Address
    last: IPv4Address


@dataclass(frozen=True, slots=True, kw_only=True)
class BootNetwork:
    """Where we listen. ``lease`` is None when another DHCP server gives the addresses."""

    interface: str
    address: IPv4Interface
    port: int
    """Of the web server."""
    lease: Lease | None = None
    gateway: IPv4Address | None = None
    resolvers: tuple[IPv4Address, ...] = ()

    @property
    def url(self) -> str:
        """Of the web server, without a slash at the end."""
        return f"http://{self.address.ip}:{self.port}"


def find_address(interface: str) -> IPv4Interface:
    """The interface's IPv4 address and prefix; UserError when it has none."""
    try:
        return interfaces.find_address(interface)
    except OSError as error:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise UserError(
            f"{interface!r} has no IPv4 address: {error.strerror}",
            where="--interface",
            hint=f"one of {known}, with an address",
        ) from None


def parse_lease(text: str, address: IPv4Interface) -> Lease:
    """Read ``FIRST,LAST``, both in the interface's network."""
    first, _, last = text.partition(",")
    try:
        lease = Lease(first=IPv4Address(first), last=IPv4Address(last))
    except ValueError:
        raise UserError(f"{text!r} is no range", where="--range", hint="two addresses, FIRST,LAST") from None
    if lease.first > lease.last:
        raise UserError(f"{text!r} ends before it begins", where="--range", hint="FIRST,LAST")
    for end in (lease.first, lease.last):
        if end not in address.network:
            raise UserError(
                f"{end} is not in {address.network}", where="--range", hint="the interface's own network"
            )
    if lease.first <= address.ip <= lease.last:
        raise UserError(f"{text!r} contains {address.ip}, which is ours", where="--range")
    return lease
