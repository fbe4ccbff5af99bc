"""The connections of a port whose handshake has succeeded: how many there may be, and for how long."""

import asyncio
import time
from collections.abc import Collection

from talos.rpc.port.connection import PortConnection
from talos.rpc.port.limits import Limits
from talos.rpc.port.refusals import Refusals
from talos.rpc.port.tls import Client, RefusedError

RECENTLY_USED = 1.0
"""Seconds for which a connection without a call is not ended in favour of a new one."""


class OpenConnections:
    """Those of one port."""

    def __init__(self, limits: Limits, refusals: Refusals) -> None:
        self._limits = limits
        self._refusals = refusals
        self._connections: set[PortConnection] = set()

    def __bool__(self) -> bool:
        return bool(self._connections)

    def snapshot(self) -> frozenset[PortConnection]:
        """Those of this moment."""
        return frozenset(self._connections)

    def add(self, connection: PortConnection, client: Client) -> None:
        """Take a client's connection; an unused one is closed to make room. RefusedError without one."""
        own = [one for one in self._connections if one.client.key == client.key]
        limits = self._limits
        if len(own) >= limits.connections_per_client and not _end_unused(own):
            raise RefusedError(f"{limits.connections_per_client} connections of this client are open")
        if len(self._connections) >= limits.connections and not _end_unused(self._connections):
            raise RefusedError(f"{limits.connections} connections are open")
        self._connections.add(connection)

    def remove(self, connection: PortConnection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)

    def drain(self) -> None:
        """Have each take no new calls, and end with its last one."""
        for connection in list(self._connections):
            connection.drain()

    def abort(self, connections: Collection[PortConnection]) -> None:
        """End those of these connections that are still open."""
        for connection in self._connections.intersection(connections):
            connection.abort()

    def has_expired(self) -> bool:
        """Whether the certificate of any client has expired."""
        now = time.time()
        return any(one.client.expires is not None and now > one.client.expires for one in self._connections)

    def recheck(self, accepted: frozenset[bytes]) -> None:
        """End those whose certificate has expired, or is of none of the accepted CAs."""
        now = time.time()
        for connection in list(self._connections):
            client = connection.client
            if client.expires is None or (now <= client.expires and client.anchor in accepted):
                continue
            reason = "expired" if now > client.expires else "comes from a CA that is not accepted any more"
            self._refusals.record(client.peer.address, f"the client certificate {reason}")
            connection.abort()


def _end_unused(connections: Collection[PortConnection]) -> bool:
    """End the connection that has had no call for longest, if there is one."""
    before = asyncio.get_running_loop().time() - RECENTLY_USED
    unused = [one for one in connections if one.unused_since is not None and one.unused_since < before]
    if not unused:
        return False
    oldest = min(unused, key=lambda one: one.unused_since or 0.0)
    oldest.drain()
    return True
