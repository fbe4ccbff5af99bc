"""Clients that expect_refusal at the port, well behaved or not."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import ssl
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import grpclib.encoding.base
import h2.config
import h2.connection
import h2.events

from talos.pki.certificate import PemPair
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import Status

from .world import READ, VERSION, Node, Pki, answer_with_name, call, client

type Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


async def answer(call: ServerCall) -> Status:
    return await answer_with_name("a", call)


def client_context(pki: Pki, certificate: PemPair | None, alpn: tuple[str, ...] = ("h2",)) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pki.ca.crt.decode())
    context.set_alpn_protocols(list(alpn))
    if certificate is not None:
        with tempfile.NamedTemporaryFile() as file:
            # OpenSSL has PKCS#8 under its usual name only.
            file.write(certificate.crt + certificate.key.replace(b"ED25519 PRIVATE", b"PRIVATE"))
            file.flush()
            context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def tls(
    target: Node, context: ssl.SSLContext
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(target.host, target.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def wait_until_closed(reader: asyncio.StreamReader) -> None:
    """Read until the server ends the connection, however it does."""
    with suppress(OSError):
        while await reader.read(65536):
            pass


async def until_refused(target: Node, count: int = 1) -> list[str]:
    while len(target.refusals()) < count:  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(0.005)
    return target.refusals()


async def expect_refusal(
    target: Node, pki: Pki, certificate: PemPair | None, alpn: tuple[str, ...] = ("h2",)
) -> None:
    """Make a TLS connection and have it refused; in TLS 1.3 the client's handshake may seem to succeed."""
    try:
        async with tls(target, client_context(pki, certificate, alpn)) as (reader, _):
            await wait_until_closed(reader)
    except (OSError, ssl.SSLError):
        pass


class Raw(grpclib.encoding.base.CodecBase):
    __content_subtype__ = "proto"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def encode(self, message: bytes, message_type: type[bytes]) -> bytes:
        return message

    def decode(self, data: bytes, message_type: type[bytes]) -> bytes:
        return data


async def still_serves(target: Node, pki: Pki) -> None:
    async with client(target, pki, pki.client("os:reader")) as channel:
        assert await call(channel)


async def raw(target: Node, data: bytes) -> None:
    """Send bytes without TLS, and have the connection closed."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        writer.write(data)
        await wait_until_closed(reader)
    finally:
        writer.transport.abort()


class Session:
    """An HTTP/2 client that may misbehave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True, header_encoding="utf-8", validate_outbound_headers=False
            )
        )
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def begin(self, headers: dict[str, str], path: str = VERSION) -> int:
        stream = self.h2.get_next_available_stream_id()
        base = {":method": "POST", ":path": path, ":scheme": "https", ":authority": "a", "te": "trailers"}
        base |= {"content-type": "application/grpc", **headers}
        self.h2.send_headers(stream, list(base.items()))
        return stream

    async def begin_endless(self) -> None:
        """Begin a call and wait for its headers."""
        stream = self.begin({}, READ)
        self.h2.send_data(stream, b"\0\0\0\0\0", end_stream=True)
        self.flush()
        while True:
            for event in await self.events():
                if isinstance(event, h2.events.ResponseReceived) and event.stream_id == stream:
                    return

    async def events(self) -> list[h2.events.Event]:
        data = await self.reader.read(65536)
        if not data:
            raise ConnectionError
        events = self.h2.receive_data(data)
        self.flush()
        return events

    async def request(
        self, headers: dict[str, str], body: bytes = b"\0\0\0\0\0", *, path: str = VERSION
    ) -> dict[str, str]:
        """All headers of the reply, trailers included."""
        stream = self.begin(headers, path)
        self.h2.send_data(stream, body, end_stream=True)
        return await self.answer(stream)

    async def answer(self, stream: int) -> dict[str, str]:
        """All headers of the reply to a request that was begun, trailers included."""
        self.flush()
        found: dict[str, str] = {}
        while True:
            for event in await self.events():
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    found |= {str(key): str(value) for key, value in event.headers or ()}
                if isinstance(event, h2.events.StreamEnded) and event.stream_id == stream:
                    return found
                if isinstance(event, h2.events.ConnectionTerminated):
                    raise ConnectionError(event)


@asynccontextmanager
async def http2_client(target: Node, pki: Pki, *roles: str) -> AsyncGenerator[Session]:
    context = client_context(pki, pki.client(*(roles or ("os:admin",))))
    async with tls(target, context) as (reader, writer):
        yield Session(reader, writer)
