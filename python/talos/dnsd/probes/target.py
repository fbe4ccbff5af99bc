"""What a probe is sent to."""

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import cast

import trio

from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.system.errors import lower_first
from talos.system.net.icmp_errors import SocketAddress

MAX_HOST = 253
"""Characters of a name."""
RESOLVE_TIMEOUT = 10.0  # seconds
_FAMILIES = {
    pb.FAMILY_ANY: socket.AF_UNSPEC,
    pb.FAMILY_IPV4: socket.AF_INET,
    pb.FAMILY_IPV6: socket.AF_INET6,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An address, and as sockets take it."""

    address: str
    place: SocketAddress


async def find_target(host: str, family: pb.Family) -> Target:
    """The first address of a host, in the order that the node's programs take; RpcError."""
    if not host or len(host) > MAX_HOST or not host.isprintable():
        hint = f"an address, or a name of at most {MAX_HOST} characters"
        raise RpcError(Code.INVALID_ARGUMENT, f"host {host[:MAX_HOST]!r} is none: {hint}")
    if family not in _FAMILIES:
        raise RpcError(Code.INVALID_ARGUMENT, f"family {family} is none: give 0 (any), 1 (IPv4) or 2 (IPv6)")
    try:
        with trio.fail_after(RESOLVE_TIMEOUT):
            found = await trio.socket.getaddrinfo(
                host, None, family=_FAMILIES[family], type=socket.SOCK_DGRAM
            )
    except trio.TooSlowError:
        raise RpcError(
            Code.DEADLINE_EXCEEDED, f"host {host!r}: no answer of a resolver within {RESOLVE_TIMEOUT:g} s"
        ) from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a name"
        hint = "try `talosctl dns-query`, or give an address"
        raise RpcError(Code.NOT_FOUND, f"host {host!r}: {lower_first(reason)}; {hint}") from None
    # The other form is that of a Python without IPv6.
    place = cast("SocketAddress", found[0][4])
    address = ip_address(place[0])
    if address.is_multicast or address.is_unspecified:
        raise RpcError(
            Code.INVALID_ARGUMENT, f"host {host!r}: {address} is no address of one machine; give one that is"
        )
    return Target(address=place[0], place=place)
