"""A TCP balancer: each connection goes to a server that accepts it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import trio

type Endpoint = tuple[str, int]

CONNECT_SECONDS = 3.0
"""For a server to accept; after this the next one is tried."""
REST_SECONDS = 10.0
"""Seconds for which a server that did not accept is only asked when no other one does."""
MAX_CONNECTIONS = 1024
_BLOCK = 65536


@dataclass(slots=True)
class _Server:
    endpoint: Endpoint
    failed_at: float = float("-inf")

    @property
    def is_healthy(self) -> bool:
        return trio.current_time() - self.failed_at > REST_SECONDS


class Balancer:
    """Servers in turn, those first that have not failed lately. ``report`` gets each one's health."""

    def __init__(self, report: Callable[[Endpoint, bool], Any]) -> None:
        self._servers: list[_Server] = []
        self._report = report
        self._free = trio.CapacityLimiter(MAX_CONNECTIONS)

    def set_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        """The servers from now on; connections to others stay."""
        known = {server.endpoint: server for server in self._servers}
        self._servers = [known.get(endpoint) or _Server(endpoint) for endpoint in endpoints]

    async def serve(self, client: trio.SocketStream) -> None:
        """Pass bytes both ways until both sides have ended, or one has failed."""
        async with self._free, client:
            upstream = await self._connect()
            if upstream is None:
                return
            async with upstream, trio.open_nursery() as nursery:

                async def upwards() -> None:
                    if not await _copy(client, upstream):
                        nursery.cancel_scope.cancel()

                nursery.start_soon(upwards)
                if not await _copy(upstream, client):
                    nursery.cancel_scope.cancel()

    async def _connect(self) -> trio.SocketStream | None:
        for server in sorted(self._servers, key=lambda one: not one.is_healthy):
            stream: trio.SocketStream | None = None
            with trio.move_on_after(CONNECT_SECONDS):
                try:
                    stream = await trio.open_tcp_stream(*server.endpoint)
                except OSError:
                    stream = None
            self._note(server, healthy=stream is not None)
            if stream is not None:
                if server in self._servers:  # else it has left meanwhile
                    # The next connection begins with another one.
                    self._servers.remove(server)
                    self._servers.append(server)
                return stream
        return None

    def _note(self, server: _Server, *, healthy: bool) -> None:
        server.failed_at = float("-inf") if healthy else trio.current_time()
        self._report(server.endpoint, healthy)


async def _copy(source: trio.SocketStream, target: trio.SocketStream) -> bool:
    """Pass on until the source ends; false when a side has failed."""
    try:
        while block := await source.receive_some(_BLOCK):
            await target.send_all(block)
        await target.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return False
    return True
