"""ICMP echo over sockets without privileges, of which the kernel owns identifiers and checksums.

A process may open one while its group is in the range ``net.ipv4.ping_group_range``, which is for IPv6, too.
"""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

import trio

from talos.system.net.icmp_errors import (
    IcmpError,
    SocketAddress,
    enable_errors,
    receive_error,
    send_past_errors,
)

_HEADER = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence. RFC 792, RFC 4443."""
_REQUEST = {socket.AF_INET: 8, socket.AF_INET6: 128}
_REPLY = {socket.AF_INET: 0, socket.AF_INET6: 129}
# <linux/in.h>, <linux/in6.h>
_IP_RECVTTL, _IPV6_RECVHOPLIMIT = 12, 51
_TIME_TO_LIVE = {(socket.IPPROTO_IP, 2), (socket.IPPROTO_IPV6, 52)}
_NUMBER = struct.Struct("@i")
_MAX_PACKET, _MAX_CONTROL = 65535, 256
MAX_SEQUENCE = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoReply:
    """A reply; ``size`` is that of its payload in bytes, ``time_to_live`` 0 where the kernel reports none."""

    sender: IPv4Address | IPv6Address
    sequence: int
    size: int
    time_to_live: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoError:
    """An error about the packet of a sequence."""

    sequence: int
    error: IcmpError


class EchoSocket:
    """Sends requests to one address. PermissionError when the group is not in the range; OSError."""

    def __init__(self, target: SocketAddress) -> None:
        self._family = socket.AF_INET6 if ip_address(target[0]).version == 6 else socket.AF_INET
        protocol = socket.IPPROTO_ICMPV6 if self._family == socket.AF_INET6 else socket.IPPROTO_ICMP
        self._target = target
        self._socket = socket.socket(
            self._family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, protocol
        )
        enable_errors(self._socket)
        if self._family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVHOPLIMIT, 1)
        else:
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def set_hops(self, hops: int) -> None:
        """How many routers the next packets may pass."""
        set_hops(self._socket, hops)

    def send(self, sequence: int, payload: bytes) -> None:
        """Send a request; OSError when this machine can't."""
        header = _HEADER.pack(_REQUEST[self._family], 0, 0, 0, sequence)
        send_past_errors(self._socket, header + payload, self._target)

    async def receive(self) -> EchoReply | EchoError:
        """The next reply, or error about a request."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            error = receive_error(self._socket)
            if error is not None:
                if (sequence := parse_sequence(error.packet, _REQUEST[self._family])) is not None:
                    return EchoError(sequence=sequence, error=error)
                continue
            if (reply := self._receive_reply()) is not None:
                return reply

    def _receive_reply(self) -> EchoReply | None:
        receive: Callable[..., tuple[bytes, list[tuple[int, int, bytes]], int, tuple[str, int]]] = (
            self._socket.recvmsg
        )
        try:
            packet, control, _, sender = receive(_MAX_PACKET, _MAX_CONTROL)
        except OSError:
            # Nothing is there, or an error has come, which is kept.
            return None
        sequence = parse_sequence(packet, _REPLY[self._family])
        if sequence is None:
            return None
        lives = [
            _NUMBER.unpack_from(data)[0]
            for level, kind, data in control
            if (level, kind) in _TIME_TO_LIVE and len(data) >= _NUMBER.size
        ]
        return EchoReply(
            sender=ip_address(sender[0]),
            sequence=sequence,
            size=len(packet) - _HEADER.size,
            time_to_live=next(iter(lives), 0),
        )


def set_hops(target: socket.socket, hops: int) -> None:
    """How many routers the next packets of a socket may pass."""
    if target.family == socket.AF_INET6:
        target.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
    else:
        target.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)


def parse_sequence(packet: bytes, kind: int) -> int | None:
    """The sequence of an echo message of a type; None for all else."""
    if len(packet) < _HEADER.size:
        return None
    found, code, _, _, sequence = _HEADER.unpack_from(packet)
    return sequence if (found, code) == (kind, 0) else None
