"""Connections to the apids of other nodes, one per target."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.client import Channel
from talos.rpc.port.remote import RemoteChannel, RemoteServer

PORT = 50000

IDLE_TIMEOUT = 15 * 60.0
"""Seconds until an unused connection is closed (as upstream)."""

MAX_PEERS = 512
"""Targets that are connected at a time; the one unused for longest is closed."""


@dataclass(slots=True, eq=False)
class _Connection:
    channel: Channel
    calls: int = 0
    used: float = 0.0
    is_dropped: bool = False
    idle: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Close as soon as no call uses it."""
        self.is_dropped = True
        self.stop_timer()
        if not self.calls:
            self.channel.close()

    def stop_timer(self) -> None:
        """It is used, or it ends."""
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None


class Peers:
    """The connections of one set of credentials, which are in ``context``. Its functions are asyncio's."""

    def __init__(self, context: ssl.SSLContext, *, port: int = PORT) -> None:
        self._context = context
        self._port = port
        self._connections: dict[str, _Connection] = {}
        self._old: set[_Connection] = set()

    @asynccontextmanager
    async def connection(self, target: str) -> AsyncGenerator[Channel]:
        """The connection to a target, for one call."""
        connection = self._get(target)
        connection.calls += 1
        connection.stop_timer()
        try:
            yield connection.channel
        finally:
            self._end_call(target, connection)

    def _end_call(self, target: str, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.calls -= 1
        connection.used = loop.time()
        if connection.calls:
            return
        if connection.is_dropped:
            connection.close()
            self._old.discard(connection)
        else:
            connection.idle = loop.call_later(IDLE_TIMEOUT, self._drop, target)

    def _get(self, target: str) -> _Connection:
        connection = self._connections.get(target)
        if connection is None:
            self._make_room()
            server = RemoteServer(host=target, port=self._port, context=self._context)
            connection = self._connections[target] = _Connection(RemoteChannel(server, ASYNCIO))
        return connection

    def _make_room(self) -> None:
        if len(self._connections) < MAX_PEERS:
            return
        unused = [(entry.used, target) for target, entry in self._connections.items() if not entry.calls]
        if not unused:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"calls to {MAX_PEERS} other nodes are open")
        self._drop(min(unused)[1])

    def _drop(self, target: str) -> None:
        connection = self._connections.pop(target)
        if connection.calls:
            self._old.add(connection)
        connection.close()

    def retire(self) -> None:
        """The credentials have been replaced: close every connection after its last call."""
        for target in list(self._connections):
            self._drop(target)

    def close(self) -> None:
        """Close every connection now."""
        self.retire()
        for connection in self._old:
            connection.channel.close()
