"""Announcing an address on a link, and probing whether another machine has it. RFC 5227, 826, 4861."""

import errno
import socket
import struct
from ipaddress import IPv4Address, IPv6Address

import trio

from talos.system.net.packets import open_packet_socket

ETH_P_ARP, ETH_P_IPV6 = 0x0806, 0x86DD
REQUEST, REPLY = 1, 2
ANNOUNCEMENTS = 2
"""How often an address is announced: switches and machines may miss one."""
ANNOUNCE_INTERVAL = 0.1  # seconds
PROBES = 2
PROBE_INTERVAL = 0.1
"""Between two questions, and for the answers to the last one. RFC 5227 has seconds, for links by radio."""

_BROADCAST = b"\xff" * 6
_ALL_NODES = IPv6Address("ff02::1")
_ALL_NODES_HARDWARE = bytes.fromhex("333300000001")
_PACKET = struct.Struct("!HHBBH6s4s6s4s")
_ETHERNET, _IPV4 = 1, 0x0800
# Classic BPF: everything; the protocol of the socket selects.
_ALL = ((0x6, 0, 0, 0xFFFF),)
_ADVERTISEMENT, _OVERRIDE = 136, 0x20000000


def make_arp(operation: int, hardware: bytes, sender: IPv4Address, target: IPv4Address) -> bytes:
    """An ARP packet without its link layer's header."""
    return _PACKET.pack(_ETHERNET, _IPV4, 6, 4, operation, hardware, sender.packed, bytes(6), target.packed)


def parse_arp(packet: bytes) -> tuple[bytes, IPv4Address, IPv4Address] | None:
    """The sender's hardware address, its address and the target's; None when it is something else."""
    if len(packet) < _PACKET.size:
        return None
    kind, protocol, *lengths, _, hardware, sender, _, target = _PACKET.unpack_from(packet)
    if (kind, protocol, *lengths) != (_ETHERNET, _IPV4, 6, 4):
        return None
    return hardware, IPv4Address(sender), IPv4Address(target)


def make_advertisement(hardware: bytes, address: IPv6Address) -> bytes:
    """An unsolicited neighbour advertisement to all nodes of the link, as an IPv6 packet."""
    body = struct.pack("!BBHI16sBB6s", _ADVERTISEMENT, 0, 0, _OVERRIDE, address.packed, 2, 1, hardware)
    pseudo = address.packed + _ALL_NODES.packed + struct.pack("!II", len(body), socket.IPPROTO_ICMPV6)
    body = body[:2] + struct.pack("!H", _checksum(pseudo + body)) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), socket.IPPROTO_ICMPV6, 255)
    return header + address.packed + _ALL_NODES.packed + body


async def announce(link: str, hardware: bytes, address: IPv4Address | IPv6Address) -> None:
    """Have every machine of the link send to this one what is for the address. Needs CAP_NET_RAW; OSError."""
    if isinstance(address, IPv4Address):
        protocol, to = ETH_P_ARP, _BROADCAST
        packets = [make_arp(operation, hardware, address, address) for operation in (REQUEST, REPLY)]
    else:
        protocol, to = ETH_P_IPV6, _ALL_NODES_HARDWARE
        packets = [make_advertisement(hardware, address)]
    # Protocol 0 receives nothing.
    with trio.socket.from_stdlib_socket(open_packet_socket(link, 0, _ALL)) as raw:
        for index in range(ANNOUNCEMENTS):
            if index:
                await trio.sleep(ANNOUNCE_INTERVAL)
            for packet in packets:
                await raw.sendto(packet, (link, protocol, 0, 0, to))


async def find_owner(link: str, hardware: bytes, address: IPv4Address) -> bytes | None:
    """The hardware address of another machine of the link that has the address, or claims it now. OSError."""
    with trio.socket.from_stdlib_socket(open_packet_socket(link, ETH_P_ARP, _ALL)) as raw:
        question = make_arp(REQUEST, hardware, IPv4Address(0), address)
        for _ in range(PROBES):
            await raw.sendto(question, (link, ETH_P_ARP, 0, 0, _BROADCAST))
            with trio.move_on_after(PROBE_INTERVAL):
                while True:
                    found = parse_arp(await _receive(raw))
                    if found is None or found[0] == hardware:
                        continue
                    _, sender, target = found
                    # A machine that probes with no address of its own is about to take it, too.
                    if sender == address or (int(sender) == 0 and target == address):
                        return found[0]
    return None


async def _receive(raw: trio.socket.SocketType) -> bytes:
    while True:
        try:
            return await raw.recv(256)
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise
            await trio.sleep(PROBE_INTERVAL)


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
