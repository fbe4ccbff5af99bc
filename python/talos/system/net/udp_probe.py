"""Datagrams to ports where usually nothing listens, and what machines on the way report about them."""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from talos.system.net.icmp_errors import ErrorSocket, IcmpError, Receive, SocketAddress
from talos.system.net.receive_time import find_age

_MAX_PACKET, _MAX_CONTROL = 65535, 256
_PROTOCOLS = {socket.AF_INET: socket.IPPROTO_UDP, socket.AF_INET6: socket.IPPROTO_UDP}


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReply:
    """A datagram from a port, where something listens after all; it has arrived ``age`` seconds ago."""

    sender: IPv4Address | IPv6Address
    port: int
    age: float


class UdpProbeSocket(ErrorSocket):
    """Sends empty datagrams to ports of one address; OSError."""

    def __init__(self, target: SocketAddress) -> None:
        super().__init__(target, _PROTOCOLS)
        self._target = target

    def send(self, port: int) -> None:
        """Send a datagram; OSError when this machine can't."""
        place: SocketAddress
        match self._target:
            case (host, _):
                place = (host, port)
            case (host, _, flow, link):
                place = (host, port, flow, link)
        self.send_past_errors(b"", place)

    async def receive(self) -> IcmpError | PortReply:
        """The next error or datagram."""
        receive: Receive = self.socket.recvmsg
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            error = self.receive_error()
            if error is not None:
                return error
            try:
                _, control, _, sender = receive(_MAX_PACKET, _MAX_CONTROL)
            except OSError:
                continue  # nothing is there, or an error has come, which is kept
            return PortReply(sender=ip_address(sender[0]), port=sender[1], age=find_age(control))
