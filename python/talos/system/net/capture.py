"""Packets of a network interface, as they pass, in the pcap format."""

import errno
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import trio

from talos.system.net.packets import ETH_P_ALL, attach_filter

DEFAULT_SNAP_LENGTH = 4096
MAX_SNAP_LENGTH = 262144
_RECEIVE_BUFFER = 8 << 20
_BATCH_BYTES = 64 * 1024
"""Bytes gathered into one piece, as long as packets are waiting."""

# linux/if_packet.h, linux/if_ether.h, asm-generic/socket.h
_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_MR_PROMISC = 1
_PACKET_AUXDATA = 8
_SO_TIMESTAMPNS = 35
_TP_STATUS_VLAN_VALID = 1 << 4
_TP_STATUS_VLAN_TPID_VALID = 1 << 6
_AUXDATA = struct.Struct("=IIIHHHH")
_TIMESPEC = struct.Struct("=qq")
_ANCILLARY = 128
_VLAN_OFFSET = 12
_ETH_P_8021Q = 0x8100

# linux/if_arp.h → pcap's link types
_ETHERNET, _RAW_IP = 1, 101
_LINK_TYPES = {
    1: _ETHERNET,
    772: _ETHERNET,
    768: _RAW_IP,
    769: _RAW_IP,
    776: _RAW_IP,
    778: _RAW_IP,
    65534: _RAW_IP,
}
_PCAP_NANOSECONDS = 0xA1B23C4D
_FILE_HEADER = struct.Struct("<IHHiIII")
_PACKET_HEADER = struct.Struct("<IIII")


class Instruction(NamedTuple):
    """One of classic BPF, as ``struct sock_filter`` has it."""

    code: int
    jt: int
    jf: int
    k: int


class UnsupportedLinkError(Exception):
    """The interface's kind of frames has no name in the pcap format."""


class BadFilterError(Exception):
    """The kernel refuses a filter."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Packets of one interface since it was opened."""

    link_type: int
    snap_length: int
    _socket: socket.socket

    def make_header(self) -> bytes:
        """The beginning of a pcap file."""
        return _FILE_HEADER.pack(_PCAP_NANOSECONDS, 2, 4, 0, 0, self.snap_length, self.link_type)

    async def read(self) -> bytes:
        """The next packets, at least one, each with its header."""
        found = b""
        while not found:
            await trio.lowlevel.wait_readable(self._socket)
            found = self._drain()
        return found

    def _drain(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while size < _BATCH_BYTES:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(
                    self.snap_length, _ANCILLARY, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ENETDOWN:  # may come up again
                    break
                raise
            packet = self._pack(data, ancillary)
            pieces.append(packet)
            size += len(packet)
        return b"".join(pieces)

    def _pack(self, data: bytes, ancillary: Sequence[tuple[int, int, bytes]]) -> bytes:
        seconds = nanoseconds = 0
        length = len(data)
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack_from(value)
            elif (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
                status, length, _, _, _, tag, protocol = _AUXDATA.unpack_from(value)
                if status & _TP_STATUS_VLAN_VALID:
                    # The kernel takes the tag out of the frame before anyone sees it.
                    protocol = protocol if status & _TP_STATUS_VLAN_TPID_VALID else _ETH_P_8021Q
                    length += 4
                    data = data[:_VLAN_OFFSET] + struct.pack(">HH", protocol, tag) + data[_VLAN_OFFSET:]
                    data = data[: self.snap_length]
        return _PACKET_HEADER.pack(seconds & 0xFFFFFFFF, nanoseconds, len(data), length) + data


def read_link_type(interface: str) -> int:
    """The pcap format's number for an interface's frames; FileNotFoundError, UnsupportedLinkError."""
    try:
        kind = int(Path(f"/sys/class/net/{interface}/type").read_text(encoding="ascii"))
    except (OSError, ValueError):  # also of a file in that folder, and of what is no name
        raise FileNotFoundError(interface) from None
    if kind not in _LINK_TYPES:
        raise UnsupportedLinkError(f"hardware type {kind}")
    return _LINK_TYPES[kind]


@asynccontextmanager
async def open_capture(
    interface: str, *, snap_length: int, promiscuous: bool = False, program: Sequence[Instruction] = ()
) -> AsyncGenerator[Capture]:
    """Capture as long as the context is open.

    FileNotFoundError: there is no such interface.
    UnsupportedLinkError: the interface is of a kind that pcap has no number for.
    BadFilterError: the filter is no program the kernel runs.
    """
    link_type = read_link_type(interface)
    # No protocol yet: nothing is received before the filter is in place.
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        if program:
            _attach(opened, program)
        if promiscuous:
            request = struct.pack("=iHH8s", socket.if_nametoindex(interface), _PACKET_MR_PROMISC, 0, b"")
            opened.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)
        opened.bind((interface, ETH_P_ALL))
        yield Capture(link_type, snap_length, opened)


def _attach(opened: socket.socket, program: Sequence[Instruction]) -> None:
    try:
        attach_filter(opened, program)
    except struct.error:
        raise BadFilterError("a code has 16 bits, a jump 8, a value 32") from None
    except OSError as error:
        raise BadFilterError(error.strerror or str(error)) from None
