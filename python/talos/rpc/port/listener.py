"""A TLS port: accepts connections under limits, and logs which it refused and why.

The TLS context is fetched anew for every connection, so that certificates can change
without touching the connections that are open.
"""

import asyncio
import errno
import gc
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace

from talos.rpc.client_quota import ClientQuota
from talos.rpc.port.addresses import format_address, host_of, network_of
from talos.rpc.port.alert import AlertingProtocol
from talos.rpc.port.connection import CallHandler, PortConnection
from talos.rpc.port.limits import Limits
from talos.rpc.port.pending import KnownNetworks, Pending
from talos.rpc.port.refusals import Refusals
from talos.rpc.port.tls import Client, RefusedError, anchors_of, check_client, describe
from talos.rpc.port.tls_buffer import share_buffer
from talos.rpc.protocol import Peer
from talos.system.kernel import trim_heap
from talos.system.logging import Log

BACKLOG = 256
"""Connections that the kernel completes before they are accepted here."""

SWEEP = 5.0
"""Seconds between checks for expired certificates and for memory to return."""

TRIM_AFTER, QUIET_TRIM_AFTER = 32, 8
"""Connections that have ended before their memory is given back, and so many when no other is open."""

RECENTLY_USED = 1.0
"""Seconds for which a connection without a call is not ended in favour of a new one."""

NO_CERTIFICATE = "no certificate yet"
NOT_ADMITTED = "this machine serves its manager alone"


class TlsListener:
    """Serves calls on a TCP port with TLS.

    ``context`` gives the TLS context of the next connection, None while there is none. ``wait_for`` is
    awaited before, with the address that the client has connected to. ``admits`` decides by the client's
    address and that one whether a connection is served at all.
    """

    def __init__(
        self,
        handler: CallHandler,
        *,
        context: Callable[[], ssl.SSLContext | None],
        wait_for: Callable[[str], Awaitable[None]] | None = None,
        admits: Callable[[str, str], bool] | None = None,
        log: Log,
        limits: Limits | None = None,
    ) -> None:
        self._handler = handler
        self._context = context
        self._wait_for = wait_for
        self._admits = admits
        self._log = log
        self._limits = limits or Limits()
        self._refusals = Refusals(log)
        self._memory = ClientQuota(total=self._limits.request_memory, what="large requests")
        self._calls = ClientQuota(total=self._limits.calls, what="calls")
        self._known = KnownNetworks()
        self._silent = Pending(self._limits.silent, self._known)
        self._handshakes = Pending(self._limits.handshakes, self._known)
        self._connections: set[PortConnection] = set()
        self._ended = 0
        self._serving: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None

    def start(self, port: int, host: str = "") -> int:
        """Listen, by default on all addresses of both families; returns the port."""
        share_buffer()
        self._listening = listening = _listen(host, port)
        _start(self._background, self._accept(listening))
        _start(self._background, self._sweep())
        return int(listening.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Take no new connections and calls, give the open ones ``grace`` seconds, end the rest."""
        await _end(self._background)
        if self._listening is not None:
            self._listening.close()
        self._silent.clear()
        self._handshakes.clear()
        for connection in list(self._connections):
            connection.drain()
        if self._serving:
            await asyncio.wait(self._serving, timeout=grace)
        await _end(self._serving)

    def retire(self, grace: float) -> None:
        """End the connections of this moment after ``grace`` seconds.

        There is no notice before: some clients end their open calls when they get one.
        """
        old = set(self._connections)

        async def end() -> None:
            await asyncio.sleep(grace)
            for connection in old & self._connections:
                connection.abort()

        _start(self._background, end())

    def recheck(self) -> None:
        """End the connections whose CA is no longer accepted or whose certificate has expired."""
        context = self._context()
        accepted = frozenset[bytes]() if context is None else anchors_of(context)
        now = time.time()
        for connection in list(self._connections):
            client = connection.client
            if client.expires is None or (now <= client.expires and client.anchor in accepted):
                continue
            reason = "expired" if now > client.expires else "comes from a CA that is not accepted any more"
            self._refusals.record(client.peer.address, f"the client certificate {reason}")
            connection.abort()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            now = time.time()
            if any(one.client.expires is not None and now > one.client.expires for one in self._connections):
                self.recheck()
            if self._ended >= (TRIM_AFTER if self._connections else QUIET_TRIM_AFTER):
                self._ended = 0
                # A connection and its transport refer to each other.
                gc.collect()
                trim_heap()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, address = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                    self._log.error("cannot accept connections", reason=error.strerror)
                    await asyncio.sleep(1)
                continue
            _start(self._serving, self._serve(connected, address))

    async def _serve(self, connected: socket.socket, address: tuple[str, int]) -> None:
        network, peer = network_of(address[0]), format_address(address)
        if self._context() is None:
            connected.close()
            self._refusals.record(peer, NO_CERTIFICATE)
            return
        if self._admits is not None and not self._admits(host_of(address), host_of(connected.getsockname())):
            connected.close()
            self._refusals.record(peer, NOT_ADMITTED)
            return
        has_begun = False
        try:
            has_begun = await self._wait_for_hello(connected, network, peer)
        finally:
            if not has_begun:
                connected.close()
        if not has_begun:
            return
        _keep_alive(connected)
        connection = self._make_connection(network, peer)
        try:
            if await self._handshake(connection, connected, network, peer):
                await connection.ended.wait()
        finally:
            self._ended += 1
            await connection.end()

    async def _wait_for_hello(self, connected: socket.socket, network: str, peer: str) -> bool:
        """Wait for the first byte: until then a connection costs no more than its descriptor."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[str] = loop.create_future()

        def end(reason: str) -> None:
            if not outcome.done():
                outcome.set_result(reason)

        entry = self._silent.add(network, lambda: end("made room for other connections"))
        timer = loop.call_later(self._limits.hello_timeout, end, "it sent nothing")
        loop.add_reader(connected, end, "")
        try:
            reason = await outcome
        finally:
            loop.remove_reader(connected)
            timer.cancel()
            self._silent.remove(entry)
        if reason:
            self._refusals.record(peer, reason)
        return not reason

    def _make_connection(self, network: str, peer: str) -> PortConnection:
        def admit(transport: asyncio.Transport) -> Client:
            tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
            if tls.selected_alpn_protocol() != "h2":
                raise RefusedError("the client does not offer HTTP/2 (ALPN h2)")
            if tls.context.verify_mode is ssl.CERT_REQUIRED:
                client = check_client(tls, peer)
            else:
                client = Client(peer=Peer(address=peer), key=network)
            own = transport.get_extra_info("sockname")
            if own:
                client = replace(client, peer=replace(client.peer, reached=host_of(own)))
            self._make_room(client)
            self._known.add(network)
            self._connections.add(connection)
            return client

        connection = PortConnection(
            self._handler,
            admit=admit,
            limits=self._limits,
            memory=self._memory,
            calls=self._calls,
            refusals=self._refusals,
            log=self._log,
            leave=self._connections.discard,
        )
        return connection

    async def _handshake(
        self, connection: PortConnection, connected: socket.socket, network: str, peer: str
    ) -> bool:
        """Whether the TLS handshake has succeeded."""
        handshake = _start(self._serving, self._shake_hands(connection, connected, peer))
        entry = self._handshakes.add(network, lambda: _cancel(handshake))
        try:
            await asyncio.wait([handshake])
        finally:
            handshake.cancel()
            self._handshakes.remove(entry)
        if handshake.cancelled():
            self._refusals.record(peer, "made room for other connections")
            return False
        error = handshake.exception()
        if error is not None and not isinstance(error, OSError):
            raise error
        return error is None

    async def _shake_hands(self, connection: PortConnection, connected: socket.socket, peer: str) -> None:
        context = None
        try:
            if self._wait_for is not None:
                await self._wait_for(host_of(connected.getsockname()))
            context = self._context()
        finally:
            if context is None:
                connected.close()
        if context is None:
            self._refusals.record(peer, NO_CERTIFICATE)
            raise ConnectionAbortedError
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        tls = AlertingProtocol(connection, context=context, waiter=done, limits=self._limits)
        transport, _ = await loop.connect_accepted_socket(lambda: tls, connected)
        has_begun = False
        try:
            await done
            has_begun = True
        except OSError as error:
            # A connection closed without a handshake is a health check, every few seconds.
            if (reason := describe(error)) is not None:
                self._refusals.record(peer, reason)
            await tls.gone.wait()
            raise
        finally:
            if not has_begun:
                transport.abort()

    def _make_room(self, client: Client) -> None:
        """Bound the connections of a client and of all; an unused one is closed to make room."""
        own = [one for one in self._connections if one.client.key == client.key]
        limits = self._limits
        if len(own) >= limits.connections_per_client and not _end_unused(own):
            raise RefusedError(f"{limits.connections_per_client} connections of this client are open")
        if len(self._connections) >= limits.connections and not _end_unused(self._connections):
            raise RefusedError(f"{limits.connections} connections are open")


def _end_unused(connections: "set[PortConnection] | list[PortConnection]") -> bool:
    """End the connection that has had no call for longest, if there is one."""
    before = asyncio.get_running_loop().time() - RECENTLY_USED
    unused = [one for one in connections if one.unused_since is not None and one.unused_since < before]
    if not unused:
        return False
    oldest = min(unused, key=lambda one: one.unused_since or 0.0)
    oldest.drain()
    return True


def _start(tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _listen(host: str, port: int) -> socket.socket:
    # One socket for both families, unless the kernel has no IPv6.
    dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in host else socket.AF_INET
    listening = socket.create_server(
        (host, port), family=family, backlog=BACKLOG, reuse_port=False, dualstack_ipv6=dual
    )
    listening.setblocking(False)
    return listening


def _keep_alive(connected: socket.socket) -> None:
    """Notice clients that vanished: after 15 s of silence, 9 probes, 15 s apart, as Go does."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
