"""Clients that take as much of a node's API as they get."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.exceptions
import hyperframe.frame
from tests.harness.credentials import API_PORT, client_of

from talos.api.machine import machine_pb2
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair

TRUSTD_PORT = 50001
VERSION = "/machine.MachineService/Version"
APPLY = "/machine.MachineService/ApplyConfiguration"
LOGS = "/machine.MachineService/Logs"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A node, and the CA whose clients it accepts."""

    host: str
    authority: PemPair

    def context(self, *roles: str) -> ssl.SSLContext:
        """A client's TLS context with a new certificate of these roles."""
        client = client_of(CertificateAuthority.from_pem(self.authority.crt, self.authority.key), *roles)
        return _make_context(self.authority.crt, client)


def _make_context(authority: bytes, client: PemPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode())
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(client.crt + client.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


class Connection:
    """An HTTP/2 client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        """Send what h2 has made."""
        self.writer.write(self.h2.data_to_send())

    def begin(self, path: str) -> int:
        """The headers of a call; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":path", path),
            (":scheme", "https"),
            (":authority", "a"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        self.h2.send_headers(stream, headers)
        return stream

    def call(self, path: str, message: bytes = b"") -> int:
        """A whole small call."""
        stream = self.begin(path)
        self.h2.send_data(stream, b"\0" + len(message).to_bytes(4) + message, end_stream=True)
        return stream

    async def read(self) -> None:
        """Take in what the server sent next; ConnectionError at the end."""
        data = await self.reader.read(65536)
        if not data:
            raise ConnectionError
        self.h2.receive_data(data)
        self.flush()


@asynccontextmanager
async def connect(target: Target, context: ssl.SSLContext) -> AsyncGenerator[Connection]:
    """An established connection to apid."""
    reader, writer = await asyncio.open_connection(target.host, API_PORT, ssl=context, server_hostname=None)
    try:
        connection = Connection(reader, writer)
        await connection.read()
        yield connection
    finally:
        writer.transport.abort()


type Attack = Callable[[Target], Awaitable[None]]


async def _send_as_windows_open(connection: Connection, stream: int, size: int) -> None:
    left = size
    while left:
        window = min(connection.h2.local_flow_control_window(stream), 16384, left)
        if window:
            connection.h2.send_data(stream, bytes(window))
            connection.flush()
            left -= window
        else:
            await connection.read()


async def send_large_requests(target: Target) -> None:
    """Requests of 31 MiB without any role, three at a time, for ever."""
    await _send_for_ever(target, target.context(), VERSION)


async def send_large_configs(target: Target) -> None:
    """Requests of 31 MiB by an admin, to the method with the largest requests."""
    await _send_for_ever(target, target.context("os:admin"), APPLY)


async def _send_for_ever(target: Target, context: ssl.SSLContext, path: str) -> None:
    async def one() -> None:
        while True:
            with suppress(OSError, h2.exceptions.H2Error, KeyError):
                async with connect(target, context) as connection:
                    stream = connection.begin(path)
                    connection.h2.send_data(stream, b"\0" + (31 * MEBIBYTE).to_bytes(4))
                    await _send_as_windows_open(connection, stream, 31 * MEBIBYTE)
            await asyncio.sleep(0)

    await asyncio.gather(one(), one(), one())


async def hold_connections(target: Target) -> None:
    """500 idle connections of ten readers."""
    contexts = [target.context("os:reader") for _ in range(10)]
    async with AsyncExitStack() as stack:
        for number in range(500):
            with suppress(OSError):
                await stack.enter_async_context(connect(target, contexts[number % 10]))
        await asyncio.Event().wait()


async def read_nothing(target: Target) -> None:
    """250 logs of machined for each of two readers, none of which is read."""
    request = machine_pb2.LogsRequest(namespace="system", id="machined", tail_lines=-1).SerializeToString()
    async with AsyncExitStack() as stack:
        for _ in range(2):
            context = target.context("os:reader")
            connection = await stack.enter_async_context(connect(target, context))
            for _ in range(250):
                connection.call(LOGS, request)
            connection.flush()
        await asyncio.Event().wait()


async def hold_requests(target: Target) -> None:
    """990 calls that hold 63 KiB of a request each, of a reader."""
    context = target.context("os:reader")
    async with AsyncExitStack() as stack:
        for _ in range(4):
            connection = await stack.enter_async_context(connect(target, context))
            for _ in range(247):
                with suppress(h2.exceptions.H2Error):
                    stream = connection.begin(VERSION)
                    connection.h2.send_data(stream, b"\0" + (63 * 1024).to_bytes(4) + bytes(1000))
            connection.flush()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    while True:
                        await connection.read()
        await asyncio.Event().wait()


async def send_endless_headers(target: Target) -> None:
    """Header blocks of 1 MiB without an end at trustd's port, for ever, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    begin = hyperframe.frame.HeadersFrame(1, bytes(16000)).serialize()
    more = hyperframe.frame.ContinuationFrame(1, bytes(16000)).serialize()

    async def one() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(target.host, TRUSTD_PORT, ssl=context)
                try:
                    writer.write(Connection(reader, writer).h2.data_to_send() + begin + more * 60)
                    while await reader.read(65536):
                        pass
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(one() for _ in range(64)))


async def stay_silent(target: Target) -> None:
    """300 connections that send nothing, opened again when they are closed."""

    async def one(first: bytes) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(target.host, API_PORT)
                try:
                    writer.write(first)
                    await reader.read()
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(one((b"", b"\x16\x03\x01")[number % 2]) for number in range(300)))


async def cancel_calls(target: Target) -> None:
    """20,000 calls, each cancelled at once, again and again."""
    context = target.context("os:reader")
    while True:
        with suppress(OSError, h2.exceptions.H2Error):
            async with connect(target, context) as connection:
                for _ in range(20_000):
                    connection.h2.reset_stream(connection.begin(VERSION))
                connection.flush()
                while True:
                    await connection.read()
        await asyncio.sleep(0)


ATTACKS: tuple[Attack, ...] = (
    send_large_requests,
    send_large_configs,
    hold_connections,
    read_nothing,
    hold_requests,
    send_endless_headers,
    stay_silent,
    cancel_calls,
)
