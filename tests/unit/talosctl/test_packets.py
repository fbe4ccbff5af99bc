"""Captured packets as lines."""

import struct
from ipaddress import ip_address

import pytest

from talos.system.errors import UserError
from talos.talosctl.output.packets import PacketLines

ETHERNET, RAW = 1, 101


def make_ip(protocol: int, ports: bytes = b"") -> bytes:
    head = bytes([0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0])
    return head + ip_address("10.0.0.1").packed + ip_address("10.0.0.2").packed + ports


def make_ip6(protocol: int, ports: bytes = b"") -> bytes:
    ends = ip_address("fd00::1").packed + ip_address("fd00::2").packed
    return bytes([0x60, 0, 0, 0, 0, 0, protocol, 64]) + ends + ports


PORTS = struct.pack(">2H", 50000, 443)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("link", "data", "text"),
    [
        (ETHERNET, b"\0" * 12 + b"\x08\x00" + make_ip(6, PORTS), "IP 10.0.0.1.50000 > 10.0.0.2.443: TCP"),
        (ETHERNET, b"\0" * 12 + b"\x86\xdd" + make_ip6(17, PORTS), "IP6 fd00::1.50000 > fd00::2.443: UDP"),
        (ETHERNET, b"\0" * 12 + b"\x08\x06", "ARP"),
        (ETHERNET, b"\0" * 12 + b"\x88\xb5", "ethertype 0x88b5"),
        (ETHERNET, b"\0" * 5, "link type 1"),
        (RAW, make_ip(1), "IP 10.0.0.1 > 10.0.0.2: ICMP"),
        (RAW, make_ip6(200), "IP6 fd00::1 > fd00::2: protocol 200"),
        (147, b"x", "link type 147"),
    ],
)
def test_a_packet_is_a_line(order: str, link: int, data: bytes, text: str) -> None:
    stream = struct.pack(f"{order}I2HiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65536, link)
    stream += struct.pack(f"{order}4I", 3661, 5, len(data), 1500) + data
    lines = PacketLines()
    shown = [line for position in range(len(stream)) for line in lines.feed(stream[position : position + 1])]
    assert shown == [f"01:01:01.000005 {text}, length 1500"]


def test_what_is_no_capture_is_refused() -> None:
    with pytest.raises(UserError, match="no capture"):
        list(PacketLines().feed(b"x" * 24))


def test_a_packet_of_any_size_is_not_waited_for() -> None:
    stream = struct.pack("<I2HiIII4I", 0xA1B2C3D4, 2, 4, 0, 0, 65536, ETHERNET, 0, 0, 1 << 31, 1 << 31)
    with pytest.raises(UserError, match="a packet of 2147483648 bytes"):
        list(PacketLines().feed(stream))


def test_packets_of_one_piece_are_lines_each() -> None:
    stream = struct.pack("<I2HiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65536, ETHERNET)
    packets = [
        struct.pack("<4I", number, 0, number % 3, number) + bytes(number % 3) for number in range(1000)
    ]
    shown = list(PacketLines().feed(stream + b"".join(packets)))
    assert [line.rpartition(" ")[2] for line in shown] == [str(number) for number in range(1000)]
