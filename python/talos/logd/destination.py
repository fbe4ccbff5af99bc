"""A destination of messages: ``tcp://``, ``tls://`` or ``udp://`` with a host and a port."""

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, override
from urllib.parse import urlsplit

import trio

from talos.system.net.tcp import bound_waiting, find_unacknowledged

CONNECT_TIMEOUT = 10.0
"""Seconds for the connection and TLS."""
SEND_TIMEOUT = 15.0
"""Seconds in which a destination has to take a block, and acknowledge it."""
SEND_BUFFER = 64 * 1024
"""Bytes that the kernel holds of a connection, which doubles it."""
RECEIVE_SIZE = 4096
FAILURES = (OSError, ssl.SSLError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""With which a destination may answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where messages go."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """As a URL, without what else was in it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def has_datagrams(self) -> bool:
        """Each message goes alone, and none is acknowledged."""
        return self.scheme == "udp"


def parse_destination(url: str) -> Destination:
    """A URL as a destination. ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in {"tcp", "tls", "udp"} or not parts.hostname or not parts.port:
        raise ValueError("it needs a scheme (tcp, tls, udp), a host and a port")
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        raise ValueError("its host has a label that is empty or longer than 63 characters") from None
    return Destination(scheme=parts.scheme, host=parts.hostname, port=parts.port)


class Connection(Protocol):
    """An open way to a destination."""

    async def send(self, block: bytes) -> int:
        """Hand a block over; the bytes of the connection until then. Raises one of FAILURES."""
        ...

    def count_acknowledged(self) -> int:
        """How many of these bytes the other side has for sure."""
        ...

    async def watch(self) -> None:
        """Wait until the other side ends it. What it sends is dropped. Raises one of FAILURES."""
        ...


@asynccontextmanager
async def open_connection(
    destination: Destination, make_context: Callable[[], ssl.SSLContext] = ssl.create_default_context
) -> AsyncGenerator[Connection]:
    """Connect. Raises one of FAILURES. A TLS context is made each time: authorities may have changed."""
    if destination.has_datagrams:
        with trio.fail_after(CONNECT_TIMEOUT):
            datagrams = await _open_datagrams(destination)
        with datagrams.socket:
            yield datagrams
        return
    with trio.fail_after(CONNECT_TIMEOUT):
        plain = await trio.open_tcp_stream(destination.host, destination.port)
    counted = _CountedStream(plain)
    stream: trio.abc.Stream = counted
    try:
        bound_waiting(counted.socket, timeout=SEND_TIMEOUT, send_buffer=SEND_BUFFER)
        if destination.scheme == "tls":
            context = await trio.to_thread.run_sync(make_context)
            tls = trio.SSLStream(counted, context, server_hostname=destination.host, https_compatible=True)
            with trio.fail_after(CONNECT_TIMEOUT):
                await tls.do_handshake()
            stream = tls
        yield _StreamConnection(stream, counted)
    finally:
        await trio.aclose_forcefully(stream)


async def _open_datagrams(destination: Destination) -> "_DatagramConnection":
    kind = trio.socket.SOCK_DGRAM
    found = await trio.socket.getaddrinfo(destination.host, destination.port, type=kind)
    failure: OSError | None = None
    for family, _, _, _, address in found:
        opened = trio.socket.socket(family, kind)
        try:
            await opened.connect(address)
        except OSError as error:
            opened.close()
            failure = error
        else:
            return _DatagramConnection(opened)
    raise failure or OSError("the name has no address")


class _CountedStream(trio.abc.Stream):
    """TCP, with the bytes that were written."""

    def __init__(self, plain: trio.SocketStream) -> None:
        self._plain = plain
        self.socket = plain.socket
        self.written = 0

    @override
    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with trio.fail_after(SEND_TIMEOUT):
            await self._plain.send_all(data)
        self.written += len(data)

    @override
    async def wait_send_all_might_not_block(self) -> None:
        await self._plain.wait_send_all_might_not_block()

    @override
    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._plain.receive_some(max_bytes)

    @override
    async def aclose(self) -> None:
        await self._plain.aclose()


class _StreamConnection:
    """TCP or TLS."""

    def __init__(self, stream: trio.abc.Stream, counted: _CountedStream) -> None:
        self._stream, self._counted = stream, counted

    async def send(self, block: bytes) -> int:
        await self._stream.send_all(block)
        return self._counted.written

    def count_acknowledged(self) -> int:
        return self._counted.written - find_unacknowledged(self._counted.socket.fileno())

    async def watch(self) -> None:
        while await self._stream.receive_some(RECEIVE_SIZE):
            pass


class _DatagramConnection:
    """UDP: what is sent counts as acknowledged: no more is known of it."""

    def __init__(self, opened: trio.socket.SocketType) -> None:
        self.socket = opened
        self._written = 0

    async def send(self, block: bytes) -> int:
        with trio.fail_after(SEND_TIMEOUT):
            await self.socket.send(block)
        self._written += len(block)
        return self._written

    def count_acknowledged(self) -> int:
        return self._written

    async def watch(self) -> None:
        await trio.sleep_forever()
