"""A TCP balancer: each connection goes to a server that answers it."""

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import trio

from talos.kubernetes.connection_slots import ConnectionSlot, ConnectionSlots

type Endpoint = tuple[str, int]

CONNECT_TIMEOUT = 3.0  # seconds
"""For a server to accept; after this the next one is tried."""
FAILED_SERVER_DELAY = 10.0
"""Seconds for which a server that did not answer is only tried when no other one does."""
REFUSED_SERVER_DELAY = 1.0
"""Seconds for which a server that did not accept is not dialled again, by whichever connection."""
MAX_WAIT = 5.0
"""Seconds that a connection waits for a server while all are paused, then it is closed.

client-go repeats only reads after a connection that was closed, and its watches wait longer after each one,
up to 30 s: with a connection that waits it goes on as soon as a server accepts. It gives up a handshake of
TLS after 10 s, in which one more try of CONNECT_TIMEOUT has to fit.
"""
MAX_UNANSWERED = 16384
"""Bytes of a client that are kept for another server: a record of TLS, more than a handshake begins with."""
_BLOCK = 65536
_FAILED = (trio.BrokenResourceError, trio.ClosedResourceError)


@dataclass(slots=True, eq=False)
class _Server:
    endpoint: Endpoint
    failed_at: float = float("-inf")
    resumes_at: float = float("-inf")
    """When it may be dialled again, if it did not accept the last time."""

    @property
    def is_healthy(self) -> bool:
        return trio.current_time() - self.failed_at > FAILED_SERVER_DELAY

    @property
    def is_paused(self) -> bool:
        return trio.current_time() < self.resumes_at

    def pause(self) -> None:
        self.resumes_at = trio.current_time() + REFUSED_SERVER_DELAY

    def resume(self) -> None:
        self.resumes_at = float("-inf")


class Balancer:
    """Servers in turn, those first that have not failed lately. ``report`` gets each one's health.

    Connections are bounded by ``slots``; one that gets none is closed. A server that does not accept is
    paused: then one connection at a time tries it, and all that wait go on when it accepts.

    A server that stops has accepted connections that it does not answer any more. Such a connection goes on
    at another server, which gets what the client has sent so far. In TLS that is the first message of the
    handshake, which requests nothing yet.
    """

    def __init__(self, report: Callable[[Endpoint, bool], Any], slots: ConnectionSlots | None = None) -> None:
        self._servers: list[_Server] = []
        self._report = report
        self._slots = slots or ConnectionSlots()
        self._changed = trio.Event()
        """Set when a server accepts, or others are given; then there is a new one."""

    def set_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        """The servers from now on; connections to others stay."""
        known = {server.endpoint: server for server in self._servers}
        self._servers = [known.get(endpoint) or _Server(endpoint) for endpoint in endpoints]
        self._wake()

    async def serve(self, client: trio.SocketStream) -> None:
        """Pass bytes both ways until both sides have ended, or one has failed."""
        async with client:
            slot = self._slots.take(client.socket)
            if slot is None:
                return
            try:
                with slot.scope:
                    await self._serve(_Exchange(client, slot))
            finally:
                self._slots.leave(slot)

    async def _serve(self, exchange: "_Exchange") -> None:
        passed = set[_Server]()
        while reached := await self._reach(passed):
            server, upstream = reached
            async with upstream:
                await exchange.run(upstream)
            if not exchange.may_move:
                return
            if exchange.unanswered:  # else the server may have closed it because the client was silent
                self._note(server, healthy=False)
            passed.add(server)

    async def _reach(self, passed: Set[_Server]) -> tuple[_Server, trio.SocketStream] | None:
        """Connect to a server, but for those; while all others are paused, wait. None: no one accepts."""
        end = trio.current_time() + MAX_WAIT
        tried = set[_Server]()
        while True:
            is_late = trio.current_time() >= end
            left = [one for one in self._servers if one not in passed and not (is_late and one in tried)]
            ready = sorted((one for one in left if not one.is_paused), key=lambda one: not one.is_healthy)
            if ready:
                tried.add(ready[0])
                if stream := await self._connect(ready[0]):
                    return ready[0], stream
            elif left and not is_late:
                with trio.move_on_at(min(end, *(one.resumes_at for one in left))):
                    await self._changed.wait()
            else:
                return None

    async def _connect(self, server: _Server) -> trio.SocketStream | None:
        if server.resumes_at > float("-inf"):
            server.pause()  # for others: this connection finds out
        stream: trio.SocketStream | None = None
        with trio.move_on_after(CONNECT_TIMEOUT), suppress(OSError):
            stream = await trio.open_tcp_stream(*server.endpoint)
        self._note(server, healthy=stream is not None)
        if stream is None:
            server.pause()
            return None
        server.resume()
        self._wake()
        if server in self._servers:  # else it has left meanwhile
            # The next connection begins with another one.
            self._servers.remove(server)
            self._servers.append(server)
        return stream

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _note(self, server: _Server, *, healthy: bool) -> None:
        server.failed_at = float("-inf") if healthy else trio.current_time()
        self._report(server.endpoint, healthy)


@dataclass(slots=True)
class _Exchange:
    """What a client and a server send to each other."""

    client: trio.SocketStream
    slot: ConnectionSlot
    may_move: bool = True
    """Whether another server may take over: the client waits, and has had no answer."""
    unanswered: bytes = b""
    """What the client has sent, for as long as another server may take over."""

    async def run(self, server: trio.SocketStream) -> None:
        """Pass bytes both ways until both sides have ended, or one has failed."""
        async with trio.open_nursery() as nursery:

            async def upwards() -> None:
                if not await self._forward(server):
                    nursery.cancel_scope.cancel()

            nursery.start_soon(upwards)
            if not await self._answer(server):
                nursery.cancel_scope.cancel()

    async def _forward(self, server: trio.SocketStream) -> bool:
        """Pass on what the client sends until it ends; false when a side has failed."""
        try:
            await server.send_all(self.unanswered)
            while block := await self._receive():
                await server.send_all(block)
            await server.send_eof()
        except _FAILED:
            return False
        return True

    async def _receive(self) -> bytes:
        try:
            block = await self.client.receive_some(_BLOCK)
        except _FAILED:
            self._stay()
            raise
        self.slot.note_use()
        if self.may_move:
            self.unanswered += block
            if not block or len(self.unanswered) > MAX_UNANSWERED:
                self._stay()
        return block

    async def _answer(self, server: trio.SocketStream) -> bool:
        """Pass on what the server sends; false when a side has failed, or another server may take over."""
        try:
            block = await server.receive_some(_BLOCK)
            if not block and self.may_move:
                return False
            self._stay()
            while block:
                self.slot.note_use()
                await self.client.send_all(block)
                block = await server.receive_some(_BLOCK)
            await self.client.send_eof()
        except _FAILED:
            return False
        return True

    def _stay(self) -> None:
        self.may_move, self.unanswered = False, b""
