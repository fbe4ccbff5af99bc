"""Packet sockets, with a filter that the kernel runs."""

import ctypes
import socket
import struct
from collections.abc import Sequence

ETH_P_IP = 0x0800
ETH_P_ALL = 0x0003
# <asm-generic/socket.h>
_SO_ATTACH_FILTER = 26
# <linux/bpf_common.h>; SKF_AD_OFF + SKF_AD_IFINDEX of <linux/filter.h>.
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_INDEX_OF_LINK = 0xFFFFF008

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


def attach_filter(target: socket.socket, instructions: Sequence[Instruction]) -> None:
    """Have the kernel drop what a program in classic BPF does not accept."""
    code = b"".join(struct.pack("=HBBI", *line) for line in instructions)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    target.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
