"""The kernel's neighbour table: which routers of IPv6 are on a link."""

import socket
import struct
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address

import trio

from talos.system.net.netlink import NLM_F_DUMP, Netlink, parse_attributes, receive

_NETLINK_ROUTE = 0
_RTM_GETNEIGH = 30
_NDMSG = struct.Struct("=BxHiHBB")
# <linux/neighbour.h>
_NDA_DST = 1
_NTF_ROUTER = 0x80
_NUD_INCOMPLETE, _NUD_FAILED = 0x01, 0x20
# <linux/rtnetlink.h>: the bit of RTNLGRP_NEIGH.
_NEIGHBOR_GROUP = 1 << 2
_RECEIVE_BYTES = 1 << 16


def find_routers(index: int) -> Sequence[IPv6Address]:
    """Link-local addresses of reachable routers on a link, which is given by its index. OSError."""
    body = _NDMSG.pack(socket.AF_INET6, 0, index, 0, 0, 0)
    with Netlink(_NETLINK_ROUTE) as kernel:
        answers = kernel.request(_RTM_GETNEIGH, body, NLM_F_DUMP)
    return [address for answer in answers if (address := _parse_router(answer, index)) is not None]


def _parse_router(answer: bytes, index: int) -> IPv6Address | None:
    family, _, place, state, flags, _ = _NDMSG.unpack_from(answer)
    if family != socket.AF_INET6 or place != index or not flags & _NTF_ROUTER:
        return None
    if state & (_NUD_INCOMPLETE | _NUD_FAILED):
        return None
    packed = parse_attributes(answer[_NDMSG.size :]).get(_NDA_DST, b"")
    if len(packed) != 16:
        return None
    address = IPv6Address(packed)
    return address if address.is_link_local else None


@contextmanager
def watch_neighbors() -> Generator[AsyncIterator[None]]:
    """Yields once per burst of changes of the table, from when the context is entered."""
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_ROUTE) as watch:
        watch.bind((0, _NEIGHBOR_GROUP))
        yield _iterate(watch)


async def _iterate(watch: socket.socket) -> AsyncIterator[None]:
    while True:
        await trio.lowlevel.wait_readable(watch)
        # What is lost for want of room (ENOBUFS) is a change, too.
        with suppress(OSError):
            while True:
                receive(watch, _RECEIVE_BYTES)
        yield
