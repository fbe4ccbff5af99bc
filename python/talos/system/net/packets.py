"""Packet sockets, filters that the kernel runs, and the links that packets come in on."""

import ctypes
import errno
import socket
import struct
from collections.abc import Sequence

import trio

ETH_P_IP = 0x0800
ETH_P_ALL = 0x0003
# <asm-generic/socket.h>
_SO_ATTACH_FILTER = 26
# <linux/bpf_common.h>; SKF_AD_OFF + SKF_AD_IFINDEX of <linux/filter.h>.
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_INDEX_OF_LINK = 0xFFFFF008
# <linux/in.h>, <linux/in6.h>: what turns reports of a packet's link on, the option that reads them.
_IP_PKTINFO, _IP_PKTOPTIONS = 8, 9
_IPV6_RECVPKTINFO, _IPV6_2292PKTOPTIONS = 49, 6
_CONTROL_HEADER = struct.Struct("@Nii")
"""``struct cmsghdr``."""
_MAX_CONTROL = 256

type Instruction = tuple[int, int, int, int]
"""Classic BPF: code, jump when true, jump when false, value."""


def open_packet_socket(
    link: str, protocol: int, instructions: Sequence[Instruction], *, kind: int = socket.SOCK_DGRAM
) -> socket.socket:
    """A socket that gets a link's packets. Needs CAP_NET_RAW; OSError.

    ``SOCK_DGRAM`` packets are without their link layer's header, those of ``SOCK_RAW`` with it.
    """
    # Protocol 0 receives nothing: what came before the filter is set would get past it.
    opened = socket.socket(socket.AF_PACKET, kind | socket.SOCK_CLOEXEC, 0)
    try:
        attach_filter(opened, instructions)
        opened.bind((link, protocol))
    except BaseException:
        opened.close()
        raise
    return opened


def make_link_filter(refused: Sequence[int]) -> list[Instruction]:
    """A program that drops what came in on one of these links, by their indexes; for any kind of socket."""
    program: list[Instruction] = [(_LOAD, 0, 0, _INDEX_OF_LINK)]
    for index in refused:
        program += [(_JUMP_IF_EQUAL, 0, 1, index), (_RETURN, 0, 0, 0)]
    return [*program, (_RETURN, 0, 0, 0xFFFFFFFF)]


def find_link_of_stream(connected: trio.socket.SocketType) -> int:
    """The index of the link on which a TCP connection came in; OSError. Needs no privileges.

    Over IPv4 a connection of this machine to itself has the link of the address that it was made to.
    """
    if connected.family == socket.AF_INET6:
        level, option, read = socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, _IPV6_2292PKTOPTIONS
        info = struct.Struct("@16xI")
    else:
        level, option, read, info = socket.IPPROTO_IP, _IP_PKTINFO, _IP_PKTOPTIONS, struct.Struct("@I8x")
    connected.setsockopt(level, option, 1)
    control = connected.getsockopt(level, read, _MAX_CONTROL)
    connected.setsockopt(level, option, 0)
    if len(control) < _CONTROL_HEADER.size + info.size:
        raise OSError(errno.ENODATA, "the kernel does not report the link of a connection")
    [index] = info.unpack_from(control, _CONTROL_HEADER.size)
    return index


def attach_filter(target: socket.socket, instructions: Sequence[Instruction]) -> None:
    """Have the kernel drop what a program in classic BPF does not accept."""
    code = b"".join(struct.pack("=HBBI", *line) for line in instructions)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    target.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
