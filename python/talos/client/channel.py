"""One connection to one endpoint, and the errors it can end with."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from typing import cast

from talos.api.rpc import Code, RpcError
from talos.client.endpoint import Endpoint
from talos.client.http2 import Http2Connection
from talos.client.refusal import ConnectError, explain
from talos.client.target import Target
from talos.client.tls import fingerprint
from talos.system.net.tcp import TCP_KEEPIDLE

CONNECT_TIMEOUT = 20.0
"""gRPC's minimum connect timeout."""
FAILOVER_TIMEOUT = 5.0  # seconds
"""How long one of several endpoints may take before the next is tried."""
KEEPALIVE = {TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
"""A node whose power is cut sends nothing any more: half a minute of silence is the end of a call.

Seconds, and how often. HTTP/2's pings are no way: a server may take those of a waiting client for abuse.
"""


class UnreachableError(RpcError):
    """No connection was made, or it broke under a call: not something the node answered."""

    def __init__(self, refusals: Sequence[ConnectError]) -> None:
        # One line for the reader: all of them only when they differ in more than the address.
        super().__init__(Code.UNAVAILABLE, "; ".join(dict.fromkeys(map(str, refusals))))
        self.is_refusal = all(one.is_refusal for one in refusals)


class NodeChannel:
    """A connection, made when it is needed, that pins certificates and explains its failures."""

    def __init__(self, target: Target, endpoint: Endpoint, context: ssl.SSLContext, timeout: float) -> None:
        self.endpoint = endpoint
        self.refusal: ConnectError | None = None
        self._target = target
        self._context = context
        self._timeout = timeout
        self._connection: Http2Connection | None = None
        self._lock = asyncio.Lock()

    async def connect(self) -> Http2Connection:
        """Connect unless connected already; raises ConnectError."""
        async with self._lock:
            if self.refusal is not None:
                raise self.refusal
            if self._connection is None or not self._connection.usable:
                try:
                    self._connection = await self._dial()
                except (OSError, ssl.SSLError, EOFError, ConnectError) as error:
                    self.refusal = explain(self.endpoint, error)
                    raise self.refusal from error
            return self._connection

    async def aclose(self) -> None:
        """Close at once and wait until it is done: all answers are in."""
        connection = self._connection
        if connection and connection.transport:
            connection.transport.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await connection.ended.wait()

    async def _dial(self) -> Http2Connection:
        loop = asyncio.get_running_loop()
        name = self.endpoint.host
        async with asyncio.timeout(self._timeout):
            if self._target.proxy_url:
                from talos.client.proxy import connect_through

                tunnel = await connect_through(self._target.proxy_url, self.endpoint)
                transport, connection = await loop.create_connection(
                    Http2Connection, sock=tunnel, ssl=self._context, server_hostname=name
                )
            else:
                transport, connection = await loop.create_connection(
                    Http2Connection, name, self.endpoint.port, ssl=self._context, server_hostname=name
                )
        self._check_peer(transport)
        _probe(transport)
        return connection

    def _check_peer(self, transport: asyncio.Transport) -> None:
        tls = cast("ssl.SSLObject", transport.get_extra_info("ssl_object"))
        if tls.selected_alpn_protocol() != "h2":
            transport.abort()
            raise ConnectError(
                self.endpoint, "it does not speak HTTP/2", "is this the port of the Talos API (50000)?"
            )
        pins = self._target.fingerprints
        if pins and (found := fingerprint(tls.getpeercert(binary_form=True) or b"")) not in pins:
            transport.abort()
            raise ConnectError(
                self.endpoint,
                f"the node's certificate has the fingerprint {found}, not {' or '.join(pins)}",
                "compare with the one on the node's console",
            )

    def explain_loss(self) -> RpcError:
        """Why an open call was cut off."""
        lost = self._connection.lost if self._connection else None
        if isinstance(lost, ssl.SSLError):
            refusal = explain(self.endpoint, lost)
        elif self._connection and not self._connection.is_answered:
            from talos.client.diagnose import UNKNOWN, diagnose

            found = diagnose(self._target)
            refusal = ConnectError(self.endpoint, *found, is_refusal=found is not UNKNOWN)
        elif lost is None or isinstance(lost, ConnectionResetError):
            refusal = ConnectError(self.endpoint, "the connection was closed before the answer was complete")
        else:
            refusal = explain(self.endpoint, lost)
        return UnreachableError([refusal])


def _probe(transport: asyncio.Transport) -> None:
    """Have the kernel find out that the other side is gone, which a call that waits for it can't."""
    connection = cast("socket.socket", transport.get_extra_info("socket"))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
