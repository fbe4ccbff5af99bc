"""ICMP echo over sockets without privileges, of which the kernel owns identifiers and checksums.

A process may open one while its group is in the range ``net.ipv4.ping_group_range``, which is for IPv6, too.
"""

import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from talos.system.net.hop_limit import receive_hop_limits
from talos.system.net.icmp_errors import ErrorSocket, IcmpError, Receive, SocketAddress
from talos.system.net.receive_time import find_age

_HEADER = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence. RFC 792, RFC 4443."""
_REQUEST = {socket.AF_INET: 8, socket.AF_INET6: 128}
_REPLY = {socket.AF_INET: 0, socket.AF_INET6: 129}
_TIME_TO_LIVE = {(socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)}
_PROTOCOLS = {socket.AF_INET: socket.IPPROTO_ICMP, socket.AF_INET6: socket.IPPROTO_ICMPV6}
_NUMBER = struct.Struct("@i")
_MAX_PACKET, _MAX_CONTROL = 65535, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoReply:
    """A reply; ``size`` is that of its payload in bytes, ``time_to_live`` 0 where the kernel reports none.

    ``age`` is how many seconds ago it has arrived.
    """

    sender: IPv4Address | IPv6Address
    sequence: int
    size: int
    time_to_live: int
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoError:
    """An error about the packet of a sequence."""

    sequence: int
    error: IcmpError


class EchoSocket(ErrorSocket):
    """Sends requests to one address. PermissionError when the group is not in the range; OSError."""

    def __init__(self, target: SocketAddress) -> None:
        super().__init__(target, _PROTOCOLS)
        self._target = target
        receive_hop_limits(self.socket)

    def send(self, sequence: int, payload: bytes) -> None:
        """Send a request; OSError when this machine can't."""
        header = _HEADER.pack(_REQUEST[self.socket.family], 0, 0, 0, sequence)
        self.send_past_errors(header + payload, self._target)

    async def receive(self) -> EchoReply | EchoError:
        """The next reply, or error about a request."""
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            error = self.receive_error()
            if error is not None:
                if (sequence := parse_sequence(error.packet, _REQUEST[self.socket.family])) is not None:
                    return EchoError(sequence=sequence, error=error)
                continue
            if (reply := self._receive_reply()) is not None:
                return reply

    def _receive_reply(self) -> EchoReply | None:
        receive: Receive = self.socket.recvmsg
        try:
            packet, control, _, sender = receive(_MAX_PACKET, _MAX_CONTROL)
        except OSError:
            # Nothing is there, or an error has come, which is kept.
            return None
        sequence = parse_sequence(packet, _REPLY[self.socket.family])
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
            age=find_age(control),
        )


def parse_sequence(packet: bytes, kind: int) -> int | None:
    """The sequence of an echo message of a type; None for all else."""
    if len(packet) < _HEADER.size:
        return None
    found, code, _, _, sequence = _HEADER.unpack_from(packet)
    return sequence if (found, code) == (kind, 0) else None
