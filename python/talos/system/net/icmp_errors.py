"""ICMP errors about packets of a socket's own, as the kernel keeps them: IP_RECVERR. Needs no privileges."""

import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

from talos.system.net.hop_limit import set_hop_limit
from talos.system.net.receive_time import find_age, keep_receive_times

# <linux/in.h>, <linux/in6.h>
_ENABLE = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
"""IP_RECVERR and IPV6_RECVERR: the option, and the ancillary data that it brings."""
# <linux/errqueue.h>
_ERROR = struct.Struct("@IBBBBII")
"""``struct sock_extended_err``; the address of the error's sender follows."""
_ORIGIN_ICMP, _ORIGIN_ICMP6 = 2, 3
_MAX_PACKET, _MAX_CONTROL = 2048, 512
_SEND_TRIES = 4

type SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""As getaddrinfo returns it; the last number of the longer one is the link of a link-local address."""
type Receive = Callable[..., tuple[bytes, list[tuple[int, int, bytes]], int, tuple[str, int]]]
"""recvmsg of a socket of the internet: a packet, its ancillary data, flags and the sender."""

TIME_EXCEEDED = {4: 11, 6: 3}
"""Types by the version of IP: a packet's time to live was over. RFC 792, RFC 4443."""
UNREACHABLE = {4: 3, 6: 1}
NO_PORT = {4: 3, 6: 4}
"""Codes of UNREACHABLE."""
_REASONS = {
    4: {
        (3, 0): "network unreachable",
        (3, 1): "host unreachable",
        (3, 2): "protocol unreachable",
        (3, 3): "port unreachable",
        (3, 4): "the packet is too big",
        (3, 9): "network prohibited",
        (3, 10): "host prohibited",
        (3, 13): "prohibited by a filter",
        (11, 0): "time to live exceeded",
        (11, 1): "a fragment is missing",
    },
    6: {
        (1, 0): "no route",
        (1, 1): "prohibited by a filter",
        (1, 2): "beyond the scope of the source address",
        (1, 3): "address unreachable",
        (1, 4): "port unreachable",
        (1, 5): "source address prohibited",
        (1, 6): "route rejected",
        (2, 0): "the packet is too big",
        (3, 0): "time to live exceeded",
        (3, 1): "a fragment is missing",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcmpError:
    """An error. ``packet`` is what it quotes behind the headers of IP and UDP, ``port`` where that went.

    ``age`` is how many seconds ago it has arrived.
    """

    sender: IPv4Address | IPv6Address
    type: int
    code: int
    packet: bytes
    port: int
    age: float

    @property
    def is_time_exceeded(self) -> bool:
        """Whether the packet has passed as many routers as it might."""
        return (self.type, self.code) == (TIME_EXCEEDED[self.sender.version], 0)

    @property
    def is_no_port(self) -> bool:
        """Whether the packet has arrived, at a port that is closed."""
        version = self.sender.version
        return (self.type, self.code) == (UNREACHABLE[version], NO_PORT[version])

    def __str__(self) -> str:
        """``host unreachable``, or the numbers of an error without a name here."""
        known = _REASONS[self.sender.version].get((self.type, self.code))
        return known or f"ICMP type {self.type}, code {self.code}"


class ErrorSocket:
    """Datagrams to one machine, about which the kernel keeps errors; ``protocols`` by family. OSError."""

    def __init__(self, target: SocketAddress, protocols: Mapping[socket.AddressFamily, int]) -> None:
        family = socket.AF_INET6 if ip_address(target[0]).version == 6 else socket.AF_INET
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self.socket = socket.socket(family, kind, protocols[family])
        self.socket.setsockopt(*_ENABLE[family], 1)
        keep_receive_times(self.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def set_hops(self, hops: int) -> None:
        """How many routers the next packets may pass."""
        set_hop_limit(self.socket, hops)

    def send_past_errors(self, packet: bytes, target: SocketAddress) -> None:
        """Send a packet; OSError when this machine can't.

        A call reports the error that a packet before it has got, and sends nothing: it is repeated.
        """
        for _ in range(_SEND_TRIES - 1):
            with suppress(OSError):
                self.socket.sendto(packet, target)
                return
        self.socket.sendto(packet, target)

    def receive_error(self) -> IcmpError | None:
        """The next error that a machine has sent; None when there is none. It never waits."""
        receive: Receive = self.socket.recvmsg
        while True:
            try:
                packet, control, _, target = receive(_MAX_PACKET, _MAX_CONTROL, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                return None
            for level, kind, data in control:
                if (level, kind) not in _ENABLE.values():
                    continue
                error = _parse_error(packet, data, target[1], find_age(control))
                if error is not None:
                    return error


def _parse_error(packet: bytes, data: bytes, port: int, age: float) -> IcmpError | None:
    """None for an error of the kernel's own, which the call that sends reports, too."""
    if len(data) < _ERROR.size:
        return None
    _, origin, kind, code, *_ = _ERROR.unpack_from(data)
    address = data[_ERROR.size :]
    if origin == _ORIGIN_ICMP and len(address) >= 8:
        sender = IPv4Address(address[4:8])
    elif origin == _ORIGIN_ICMP6 and len(address) >= 24:
        sender = IPv6Address(address[8:24])
    else:
        return None
    return IcmpError(sender=sender, type=kind, code=code, packet=packet, port=port, age=age)
