"""Captures on the loopback interface."""

import os
import socket
import struct
from collections.abc import Sequence

import pytest

from talos.system.net.capture import BadFilterError, Capture, Instruction, open_capture

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="packet sockets are root's")]

ONLY_UDP_TO_9 = (
    Instruction(0x28, 0, 0, 12),  # ldh [12]
    Instruction(0x15, 0, 5, 0x0800),  # jeq #0x800
    Instruction(0x30, 0, 0, 23),  # ldb [23]
    Instruction(0x15, 0, 3, 17),  # jeq #udp
    Instruction(0x28, 0, 0, 36),  # ldh [36], the port behind a header of 20 bytes
    Instruction(0x15, 0, 1, 9),  # jeq #9
    Instruction(0x06, 0, 0, 0x40000),  # ret
    Instruction(0x06, 0, 0, 0),
)


def send(port: int, payload: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(payload, ("127.0.0.1", port))


async def read_packets(capture: Capture, wanted: bytes) -> Sequence[tuple[int, int, bytes]]:
    found: list[tuple[int, int, bytes]] = []
    while not any(wanted in data for _, _, data in found):
        data = await capture.read()
        while data:
            seconds, _, kept, length = struct.unpack_from("<IIII", data)
            assert seconds > 0
            found.append((kept, length, data[16 : 16 + kept]))
            data = data[16 + kept :]
    return found


async def test_filter_and_snap_length() -> None:
    async with open_capture("lo", snap_length=60, program=ONLY_UDP_TO_9) as capture:
        magic, major, minor, _, _, snap_length, link_type = struct.unpack("<IHHiIII", capture.make_header())
        assert (magic, major, minor, snap_length, link_type) == (0xA1B23C4D, 2, 4, 60, 1)
        send(10, b"another port")
        send(9, b"discard this" + bytes(500))
        packets = await read_packets(capture, b"discard this")
    assert {(kept, length) for kept, length, _ in packets} == {(60, 14 + 20 + 8 + 512)}
    assert all(b"another" not in data for _, _, data in packets)


async def test_everything_without_a_filter() -> None:
    async with open_capture("lo", snap_length=4096, promiscuous=True) as capture:
        send(9, b"hello to everybody")
        assert await read_packets(capture, b"hello to everybody")


async def test_what_can_not_be_captured() -> None:
    with pytest.raises(BadFilterError):
        async with open_capture("lo", snap_length=60, program=(Instruction(0x28, 0, 0, 12),)):
            pass
    with pytest.raises(BadFilterError, match="a code has 16 bits"):
        async with open_capture("lo", snap_length=60, program=(Instruction(1 << 16, 0, 0, 0),)):
            pass
    with pytest.raises(FileNotFoundError):
        async with open_capture("nope0", snap_length=60):
            pass
