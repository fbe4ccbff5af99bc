"""A gRPC client of a server in the network, which is not trusted: what it sends is bounded."""

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass, field
from typing import cast, override

from talos.rpc.http2.backend import AsyncBackend
from talos.rpc.http2.client import Channel, ClientConnection
from talos.rpc.http2.frames import Bounds, Kind, make_frame
from talos.rpc.http2.meter import FrameMeter
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.port.tls import load_certificate

CONNECT_TIMEOUT = 10.0
"""Seconds for the connection and TLS."""

WRITE_BUFFER = 64 * 1024
"""Bytes that wait in the transport before senders wait. asyncio's TLS takes 512 KiB."""

PONG_TIMEOUT = 20.0
"""Seconds in which a probed server has to send anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServer:
    """Where a server is and what it may make this side hold.

    ``context`` verifies its certificate, for the host that is dialled; None: nothing is encrypted.
    ``max_message`` is in bytes; after ``keepalive`` seconds the server is probed.
    """

    host: str
    port: int
    context: ssl.SSLContext | None
    max_message: int = MAX_MESSAGE
    keepalive: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """Whose certificates of servers a client accepts, and with what it proves itself, if at all. All PEM."""

    authorities: tuple[bytes, ...]
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


def make_client_context(settings: ClientTls) -> ssl.SSLContext:
    """A client's TLS context: TLS 1.3, HTTP/2, the server's certificate and name are verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    # As Go does: an accepted CA is an anchor even when another CA has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(
        cadata="\n".join(pem.decode("ascii", "ignore") for pem in settings.authorities)
    )
    if settings.certificate:
        load_certificate(context, settings.certificate, settings.key)
    return context


class RemoteConnection(ClientConnection):
    """A connection that ends when its server answers no probe."""

    def __init__(self, server: RemoteServer) -> None:
        super().__init__(
            Bounds(
                frame=64 * 1024,
                headers=16 * 1024,
                streams=0,
                connection_window=1024 * 1024,
                unsent=256 * 1024,
            ),
            max_message=server.max_message,
        )
        self._keepalive = server.keepalive
        self._has_answered = True
        self._meter = FrameMeter()
        self._timer = self.loop.call_later(self._keepalive, self._probe)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A server lets a large message come at once: only the network holds it up.
        cast("asyncio.Transport", transport).set_write_buffer_limits(high=WRITE_BUFFER)
        super().connection_made(transport)

    @override
    def measure(self, kind: int, flags: int, number: int, size: int) -> None:
        self._meter.count(kind, flags, number, size)

    @override
    def data_received(self, data: bytes | memoryview) -> None:
        self._has_answered = True
        super().data_received(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _probe(self) -> None:
        self._has_answered = False
        self.write(make_frame(Kind.PING, 0, 0, bytes(8)))
        self._timer = self.loop.call_later(PONG_TIMEOUT, self._check)

    def _check(self) -> None:
        if self._has_answered:
            self._timer = self.loop.call_later(self._keepalive, self._probe)
        else:
            self.abort()


class RemoteChannel(Channel):
    """Calls to a server in the network."""

    def __init__(self, server: RemoteServer, backend: AsyncBackend) -> None:
        host = f"[{server.host}]" if ":" in server.host else server.host
        self.authority = f"{host}:{server.port}"
        self.scheme = "http" if server.context is None else "https"
        super().__init__(self.authority, backend)
        self._server = server

    @override
    async def dial(self) -> ClientConnection:
        server = self._server
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                transport, connection = await self._loop.create_connection(
                    lambda: RemoteConnection(server),
                    server.host,
                    server.port,
                    ssl=server.context,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise OSError("no answer in time") from None
        except ConnectionRefusedError:
            raise OSError("connection refused") from None
        except UnicodeError:
            raise OSError("the host has a label that is empty or longer than 63 characters") from None
        except OSError as error:
            if type(error) is not OSError or not error.errno:
                raise
            # asyncio has the address, which is named anyway, in place of the system's text.
            raise OSError(os.strerror(error.errno).lower()) from None
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and cast("ssl.SSLObject", tls).selected_alpn_protocol() != "h2":
            transport.abort()
            raise OSError("it does not speak HTTP/2 (ALPN h2)")
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
