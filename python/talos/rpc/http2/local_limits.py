"""Who may connect to a server on a unix socket, and what those that may can make it hold."""

import socket
import struct
from asyncio.trsock import TransportSocket
from dataclasses import dataclass, field

from talos.rpc.http2.frames import Bounds

_PEER = struct.Struct("3i")
"""``struct ucred`` of linux/socket.h: pid, uid, gid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLimits:
    """The defaults bound what a working daemon needs; a socket of one that may be compromised has its own."""

    callers: frozenset[int] = frozenset()
    """Uids that may connect beside root and the server's own."""

    connections: int = 1024

    bounds: Bounds = field(default_factory=Bounds)
    """Of each connection."""

    request_memory: int | None = None
    """Bytes of requests that have arrived on all connections and are not complete yet."""

    is_metered: bool = False
    """Whether frames that cost a peer next to nothing are counted, as on a port."""


def read_peer(connection: socket.socket | TransportSocket) -> int:
    """The uid of the process that connected, as it was then."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    uid: int = _PEER.unpack(credentials)[1]
    return uid
