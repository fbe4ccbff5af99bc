"""Transport of DHCPv6 messages: a UDP socket on one link, behind an interface."""

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import IPv6Address
from typing import Protocol, override

import trio

from talos.networkd.dhcp6.message import MAX_MESSAGE

CLIENT_PORT, SERVER_PORT = 546, 547
ALL_SERVERS = "ff02::1:2"


class Wire6(Protocol):
    """DHCPv6 messages over one link. Sending raises OSError while the link has no address of its own."""

    async def send(self, message: bytes) -> None:
        """Send to all servers and relays."""
        ...

    async def receive(self) -> tuple[bytes, IPv6Address]:
        """The next message from a server or relay of the link, and its sender."""
        ...


type OpenWire6 = Callable[[str], AbstractAsyncContextManager[Wire6]]
"""Opens the wire of a link by its name."""


class SocketWire6(Wire6):
    """A socket of the kernel."""

    def __init__(self, link: str, udp: trio.socket.SocketType) -> None:
        self._link = link
        self._udp = udp

    @override
    async def send(self, message: bytes) -> None:
        index = socket.if_nametoindex(self._link)
        await self._udp.sendto(message, (ALL_SERVERS, SERVER_PORT, 0, index))

    @override
    async def receive(self) -> tuple[bytes, IPv6Address]:
        while True:
            data, sender = await self._udp.recvfrom(MAX_MESSAGE)
            address = IPv6Address(sender[0].partition("%")[0])
            # Servers and relays of the link have no other source; what comes through a router is forged.
            if address.is_link_local and sender[1] == SERVER_PORT:
                return data, address


@asynccontextmanager
async def open_socket(link: str) -> AsyncGenerator[Wire6]:
    """The wire of a link. Needs CAP_NET_RAW, and CAP_NET_BIND_SERVICE; OSError."""
    with trio.socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, link.encode() + b"\0")
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        await udp.bind(("::", CLIENT_PORT))
        yield SocketWire6(link, udp)
