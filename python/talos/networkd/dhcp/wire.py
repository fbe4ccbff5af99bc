"""Transport of DHCP messages over links without an address: packet sockets, behind an interface."""

import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Protocol, override

import trio

from talos.system.net.arp import find_owner
from talos.system.net.packets import ETH_P_IP, open_packet_socket

CLIENT_PORT = 68
SERVER_PORT = 67
BROADCAST = b"\xff" * 6

_RECEIVE_SIZE = 4096
_TTL = 64  # hops
# Classic BPF on an IPv4 packet: unfragmented UDP to the client's port.
_FILTER = (
    (0x30, 0, 0, 9),  # ldb [9]
    (0x15, 0, 6, socket.IPPROTO_UDP),  # jne udp, drop
    (0x28, 0, 0, 6),  # ldh [6]
    (0x45, 4, 0, 0x1FFF),  # jset 0x1fff, drop
    (0xB1, 0, 0, 0),  # ldxb 4*([0]&0xf)
    (0x48, 0, 0, 2),  # ldh [x+2]
    (0x15, 0, 1, CLIENT_PORT),  # jne port, drop
    (0x6, 0, 0, 0xFFFF),  # accept
    (0x6, 0, 0, 0),  # drop
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that has replied."""

    address: IPv4Address
    hardware_address: bytes


class Wire(Protocol):
    """DHCP messages over one link. Sending raises OSError when the link is off."""

    async def send(
        self, message: bytes, *, source: IPv4Address | None = None, to: Peer | None = None
    ) -> None:
        """Send to one server, or to all."""
        ...

    async def receive(self) -> tuple[bytes, Peer]:
        """The next message to any client on the link."""
        ...

    async def find_owner(self, address: IPv4Address, hardware_address: bytes) -> bytes | None:
        """The hardware address of another machine that has an address already."""
        ...


type OpenWire = Callable[[str], AbstractAsyncContextManager[Wire]]
"""Opens the wire of a link by its name."""


class PacketWire(Wire):
    """A packet socket of the kernel."""

    def __init__(self, link: str, packets: trio.socket.SocketType) -> None:
        self._link = link
        self._packets = packets

    @override
    async def send(
        self, message: bytes, *, source: IPv4Address | None = None, to: Peer | None = None
    ) -> None:
        destination = to.address if to is not None else IPv4Address(0xFFFFFFFF)
        packet = make_packet(message, source or IPv4Address(0), destination)
        hardware = to.hardware_address if to is not None else BROADCAST
        await self._packets.sendto(packet, (self._link, ETH_P_IP, 0, 0, hardware))

    @override
    async def receive(self) -> tuple[bytes, Peer]:
        """The next message to a client on the link."""
        while True:
            packet, sender = await self._packets.recvfrom(_RECEIVE_SIZE)
            found = parse_packet(packet)
            if found is not None:
                return found[0], Peer(found[1], sender[4])

    @override
    async def find_owner(self, address: IPv4Address, hardware_address: bytes) -> bytes | None:
        return await find_owner(self._link, hardware_address, address)


@asynccontextmanager
async def open_packets(link: str) -> AsyncGenerator[Wire]:
    """The wire of a link. Needs CAP_NET_RAW; OSError."""
    with trio.socket.from_stdlib_socket(open_packet_socket(link, ETH_P_IP, _FILTER)) as packets:
        yield PacketWire(link, packets)


def make_packet(message: bytes, source: IPv4Address, destination: IPv4Address) -> bytes:
    """An IPv4 packet with a UDP datagram from client to server."""
    length = 8 + len(message)
    pseudo = source.packed + destination.packed + struct.pack("!BBH", 0, socket.IPPROTO_UDP, length)
    ports = struct.pack("!HHH", CLIENT_PORT, SERVER_PORT, length)
    check = checksum(pseudo + ports + b"\0\0" + message) or 0xFFFF
    start = struct.pack("!BBHHHBB", 0x45, 0, 20 + length, 0, 0, _TTL, socket.IPPROTO_UDP)
    ends = source.packed + destination.packed
    header = start + struct.pack("!H", checksum(start + b"\0\0" + ends)) + ends
    return header + ports + struct.pack("!H", check) + message


def parse_packet(packet: bytes) -> tuple[bytes, IPv4Address] | None:
    """What a packet to a client carries, and who sent it; nothing when it is something else.

    The checksum is not verified: between virtual machines it is not filled in.
    """
    if len(packet) < 28 or packet[0] >> 4 != 4:
        return None
    header = (packet[0] & 0xF) * 4
    if header < 20 or len(packet) < header + 8:
        return None
    length = int.from_bytes(packet[header + 4 : header + 6])
    if length < 8 or len(packet) < header + length:
        return None
    return packet[header + 8 : header + length], IPv4Address(packet[12:16])


def checksum(data: bytes) -> int:
    """The Internet's checksum, RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
