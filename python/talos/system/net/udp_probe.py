"""Datagrams to ports where usually nothing listens, and what machines on the way report about them."""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

import trio

from talos.system.net.echo import set_hops
from talos.system.net.icmp_errors import (
    IcmpError,
    SocketAddress,
    enable_errors,
    receive_error,
    send_past_errors,
)

_MAX_PACKET = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReply:
    """A datagram from a port, where something listens after all."""

    sender: IPv4Address | IPv6Address
    port: int


class UdpProbeSocket:
    """Sends empty datagrams to ports of one address; OSError."""

    def __init__(self, target: SocketAddress) -> None:
        family = socket.AF_INET6 if ip_address(target[0]).version == 6 else socket.AF_INET
        self._target = target
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        enable_errors(self._socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def set_hops(self, hops: int) -> None:
        """How many routers the next datagrams may pass."""
        set_hops(self._socket, hops)

    def send(self, port: int) -> None:
        """Send a datagram; OSError when this machine can't."""
        place: SocketAddress
        match self._target:
            case (host, _):
                place = (host, port)
            case (host, _, flow, link):
                place = (host, port, flow, link)
        send_past_errors(self._socket, b"", place)

    async def receive(self) -> IcmpError | PortReply:
        """The next error or datagram."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            error = receive_error(self._socket)
            if error is not None:
                return error
            try:
                _, sender = self._socket.recvfrom(_MAX_PACKET)
            except OSError:
                continue  # nothing is there, or an error has come, which is kept
            return PortReply(sender=ip_address(sender[0]), port=sender[1])
