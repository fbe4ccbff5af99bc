"""TCP connections on port 179, in the default routing domain or in a VRF."""

import socket
from contextlib import suppress

import trio

from talos.bgpd.wire.scoped_address import ScopedAddress, parse_scoped_address
from talos.system.net.hop_limit import set_hop_limit

PORT = 179
CONNECT_TIMEOUT = 120.0
"""Seconds for one connection."""
BACKLOG = 16
_NEIGHBOR_HOPS = 1
"""Peers of another autonomous system are on the same link: what they are sent gets no farther."""


async def open_listener(family: socket.AddressFamily, vrf: str) -> trio.SocketListener:
    """A socket for all addresses of a domain. Needs CAP_NET_BIND_SERVICE; OSError."""
    opened = trio.socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _bind_to(opened, vrf)
        await opened.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", PORT))  # noqa: S104 - peers are chosen
        opened.listen(BACKLOG)
        return trio.SocketListener(opened)
    except BaseException:
        opened.close()
        raise


async def dial(peer: ScopedAddress, vrf: str, *, is_external: bool) -> trio.SocketStream:
    """A connection to a peer; OSError, also when it takes too long."""
    opened = trio.socket.socket(peer.family, socket.SOCK_STREAM)
    try:
        _bind_to(opened, vrf)
        if is_external:
            limit_hops(opened)
        with trio.fail_after(CONNECT_TIMEOUT):
            await opened.connect(peer.make_address(PORT))
        return trio.SocketStream(opened)
    except trio.TooSlowError:
        opened.close()
        raise TimeoutError(f"no answer in {CONNECT_TIMEOUT:.0f} s") from None
    except BaseException:
        opened.close()
        raise


def limit_hops(opened: trio.socket.SocketType) -> None:
    """Let nothing that is sent pass a router."""
    set_hop_limit(opened, _NEIGHBOR_HOPS)


def _bind_to(opened: trio.socket.SocketType, vrf: str) -> None:
    if vrf:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, vrf.encode() + b"\0")


def find_peer_address(stream: trio.SocketStream) -> ScopedAddress | None:
    """The peer's address; None when the connection is gone already."""
    with suppress(OSError):
        return parse_scoped_address(stream.socket.getpeername())
    return None


def find_own_address(stream: trio.SocketStream) -> ScopedAddress | None:
    """This side's address; None when the connection is gone already."""
    with suppress(OSError):
        return parse_scoped_address(stream.socket.getsockname())
    return None
