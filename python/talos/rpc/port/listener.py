"""A TLS port: accepts connections under limits, and logs which it refused and why.

The TLS context is fetched anew for every connection, so that certificates can change
without touching the connections that are open.
"""

import asyncio
import errno
import gc
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from talos.rpc.client_quota import ClientQuota
from talos.rpc.port.addresses import format_address, host_of, network_of
from talos.rpc.port.alert import AlertingProtocol
from talos.rpc.port.connection import CallHandler, PortConnection
from talos.rpc.port.limits import Limits
from talos.rpc.port.open_connections import OpenConnections
from talos.rpc.port.pending import KnownNetworks, Pending
from talos.rpc.port.refusals import Refusals
from talos.rpc.port.sockets import keep_alive, open_listening_socket
from talos.rpc.port.tasks import Tasks
from talos.rpc.port.tls import Client, RefusedError, anchors_of, check_client, describe
from talos.rpc.port.tls_buffer import share_buffer
from talos.rpc.protocol import Peer
from talos.system.kernel import trim_heap
from talos.system.logging import Log

SWEEP = 5.0
"""Seconds between checks for expired certificates and for memory to return."""

TRIM_AFTER, QUIET_TRIM_AFTER = 32, 8
"""Connections that have ended before their memory is given back, and so many when no other is open."""

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
        self._connections = OpenConnections(self._limits, self._refusals)
        self._ended = 0
        self._serving, self._background = Tasks(), Tasks()
        self._listening: socket.socket | None = None

    def start(self, port: int, host: str = "") -> int:
        """Listen, by default on all addresses of both families; returns the port."""
        share_buffer()
        self._listening = listening = open_listening_socket(host, port)
        self._background.start(self._accept(listening))
        self._background.start(self._sweep())
        return int(listening.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Take no new connections and calls, give the open ones ``grace`` seconds, end the rest."""
        await self._background.end()
        if self._listening is not None:
            self._listening.close()
        self._silent.clear()
        self._handshakes.clear()
        self._connections.drain()
        await self._serving.wait(grace)
        await self._serving.end()

    def retire(self, grace: float) -> None:
        """End the connections of this moment after ``grace`` seconds.

        There is no notice before: some clients end their open calls when they get one.
        """
        old = self._connections.snapshot()

        async def end() -> None:
            await asyncio.sleep(grace)
            self._connections.abort(old)

        self._background.start(end())

    def recheck(self) -> None:
        """End the connections whose CA is no longer accepted or whose certificate has expired."""
        context = self._context()
        self._connections.recheck(frozenset[bytes]() if context is None else anchors_of(context))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            if self._connections.has_expired():
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
            self._serving.start(self._serve(connected, address))

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
        keep_alive(connected)
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
            self._connections.add(connection, client)
            self._known.add(network)
            return client

        connection = PortConnection(
            self._handler,
            admit=admit,
            limits=self._limits,
            memory=self._memory,
            calls=self._calls,
            refusals=self._refusals,
            log=self._log,
            leave=self._connections.remove,
        )
        return connection

    async def _handshake(
        self, connection: PortConnection, connected: socket.socket, network: str, peer: str
    ) -> bool:
        """Whether the TLS handshake has succeeded."""
        handshake = self._serving.start(self._shake_hands(connection, connected, peer))
        entry = self._handshakes.add(network, partial(_cancel, handshake))
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


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
