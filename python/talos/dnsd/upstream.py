"""One configured DNS server: queried over UDP and TCP, TLS (RFC 7858) or HTTPS (RFC 8484)."""

import enum
import random
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

import trio

from talos.dnsd.message import (
    HEADER,
    MAX_REPLY,
    MalformedError,
    Query,
    Reply,
    make_query,
    parse_reply,
)

UDP_TIMEOUT = 1.5
"""Seconds for an answer; a lost datagram is sent once more."""
UDP_TRIES = 2
STREAM_TIMEOUT = 4.0  # seconds
IDLE_STREAMS = 4
"""Connections to one server that are kept for the next question."""
HEAD_BYTES = 16 << 10
"""Of the head of a reply over HTTP."""
MAX_FOREIGN_REPLIES = 32
"""Datagrams that are not the answer, after which a question gives up: a sender guesses its number."""
_LENGTH = re.compile(r"[0-9]{1,9}")
PORTS = {"udp": 53, "tls": 853, "https": 443}


class Transport(enum.Enum):
    """How a server is queried."""

    UDP = "udp"
    TLS = "tls"
    HTTPS = "https"


class UpstreamError(Exception):
    """A server gave no usable answer; the text is the reason.

    ``is_refusal``: nothing listens there. ``is_silence``: no answer came in time.
    """

    def __init__(self, reason: str, *, is_refusal: bool, is_silence: bool) -> None:
        super().__init__(reason)
        self.is_refusal = is_refusal
        self.is_silence = is_silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server as configured. ``name`` is what its certificate has to be for."""

    address: IPv4Address | IPv6Address
    transport: Transport = Transport.UDP
    name: str = ""

    @property
    def port(self) -> int:
        """The well-known port of the protocol."""
        return PORTS[self.transport.value]

    def __str__(self) -> str:
        """``10.0.0.53:53``."""
        host = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{host}:{self.port}"


def _make_context() -> ssl.SSLContext:
    return ssl.create_default_context()


@dataclass(slots=True)
class Upstream:
    """A server, and whether it answers."""

    server: Server
    port: int = 0
    """Another port than the protocol's."""
    pick: Callable[[int], int] = random.SystemRandom().getrandbits
    make_context: Callable[[], ssl.SSLContext] = _make_context
    is_healthy: bool = True
    _context: ssl.SSLContext | None = None
    _idle: list[trio.SSLStream[trio.SocketStream]] = field(
        default_factory=list[trio.SSLStream[trio.SocketStream]]
    )

    async def query(self, query: Query) -> Reply:
        """The server's answer; UpstreamError when there is none."""
        try:
            if self.server.transport is not Transport.UDP:
                return await self._query_encrypted(query)
            reply = await self._query_udp(query)
            return await self._query_tcp(query) if reply.is_truncated else reply
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, ssl.SSLError, MalformedError) as error:
            raise UpstreamError(
                f"{self.server}: {_describe(error)}",
                is_refusal=isinstance(error, ConnectionRefusedError),
                is_silence=isinstance(error, trio.TooSlowError),
            ) from None

    async def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            await trio.aclose_forcefully(self._idle.pop())

    @property
    def _port(self) -> int:
        return self.port or self.server.port

    async def _query_udp(self, query: Query) -> Reply:
        family = trio.socket.AF_INET6 if self.server.address.version == 6 else trio.socket.AF_INET
        # A server that has not answered before is queried once: the client has others, and gives up itself.
        for _ in range(UDP_TRIES if self.is_healthy else 1):
            # A socket for each question: its port is as hard to guess as the number of the question.
            with trio.socket.socket(family, trio.socket.SOCK_DGRAM) as udp:
                await udp.connect((str(self.server.address), self._port))
                number = self.pick(16)
                await udp.send(make_query(query, number))
                with trio.move_on_after(UDP_TIMEOUT):
                    return await self._receive(udp, query, number)
        raise trio.TooSlowError

    @staticmethod
    async def _receive(udp: trio.socket.SocketType, query: Query, number: int) -> Reply:
        reason = ""
        for _ in range(MAX_FOREIGN_REPLIES):
            data = await udp.recv(MAX_REPLY)
            try:
                return parse_reply(data, query, number)
            except MalformedError as error:
                # Perhaps it is forged, and the real one follows.
                reason = str(error)
        raise MalformedError(f"too many answers that are none: {reason}")

    async def _query_tcp(self, query: Query) -> Reply:
        with trio.fail_after(STREAM_TIMEOUT):
            stream = await trio.open_tcp_stream(str(self.server.address), self._port)
            async with stream:
                return await self._exchange(stream, query)

    async def _query_encrypted(self, query: Query) -> Reply:
        with trio.fail_after(STREAM_TIMEOUT):
            exchange = self._exchange_http if self.server.transport is Transport.HTTPS else self._exchange
            while self._idle:
                stream = self._idle.pop()
                # A server may close an idle connection at any time, which is no failure.
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
                    return await self._use(stream, exchange, query)
            return await self._use(await self._connect(), exchange, query)

    async def _use(
        self,
        stream: trio.SSLStream[trio.SocketStream],
        exchange: Callable[[trio.abc.Stream, Query], Awaitable[Reply]],
        query: Query,
    ) -> Reply:
        try:
            reply = await exchange(stream, query)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        if len(self._idle) < IDLE_STREAMS:
            self._idle.append(stream)
        else:
            await trio.aclose_forcefully(stream)
        return reply

    async def _connect(self) -> trio.SSLStream[trio.SocketStream]:
        if self._context is None:
            self._context = self.make_context()
        plain = await trio.open_tcp_stream(str(self.server.address), self._port)
        stream = trio.SSLStream(plain, self._context, server_hostname=self.server.name, https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException:
            self._context = None  # the node may trust others by the next time
            await trio.aclose_forcefully(stream)
            raise
        return stream

    async def _exchange(self, stream: trio.abc.Stream, query: Query) -> Reply:
        number = self.pick(16)
        message = make_query(query, number)
        await stream.send_all(len(message).to_bytes(2) + message)
        data = await _read(stream, b"", 2)
        size = int.from_bytes(data[:2])
        data = await _read(stream, data[2:], size)
        return _check_whole(parse_reply(data[:size], query, number))

    async def _exchange_http(self, stream: trio.abc.Stream, query: Query) -> Reply:
        # Number 0 lets caches between us and the server recognize the question, RFC 8484 section 4.1.
        message = make_query(query, 0)
        head = (
            f"POST /dns-query HTTP/1.1\r\nHost: {self.server.name}\r\nAccept: application/dns-message\r\n"
            f"Content-Type: application/dns-message\r\nContent-Length: {len(message)}\r\n\r\n"
        )
        await stream.send_all(head.encode("ascii") + message)
        data = b""
        while b"\r\n\r\n" not in data:
            if len(data) > HEAD_BYTES:
                raise MalformedError("a reply over HTTP without an end of its head")
            data = await _read(stream, data, len(data) + 1)
        head_data, _, body = data.partition(b"\r\n\r\n")
        size = parse_http_head(head_data)
        return _check_whole(parse_reply((await _read(stream, body, size))[:size], query, 0))


def _describe(error: BaseException) -> str:
    """The reason on one line; trio has that of TLS as the cause of a broken stream."""
    cause = error.__cause__ or error
    if isinstance(cause, trio.TooSlowError):
        return "no answer in time"
    text: object = getattr(cause, "verify_message", None) or getattr(cause, "strerror", None) or str(cause)
    return " ".join(str(text).split()) or "the connection broke"


def _check_whole(reply: Reply) -> Reply:
    if reply.is_truncated:
        raise MalformedError("truncated on a connection")
    return reply


def parse_http_head(head: bytes) -> int:
    """The length of the body of a successful reply; MalformedError."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/1.") or status[:3] != "200":
        raise MalformedError(f"HTTP status {status[:3]!r}")
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    length = fields.get("content-length", "")
    if _LENGTH.fullmatch(length) is None or not HEADER.size <= int(length) <= MAX_REPLY:
        raise MalformedError(f"a reply over HTTP of {length[:9]!r} bytes")
    return int(length)


async def _read(stream: trio.abc.Stream, data: bytes, size: int) -> bytes:
    """At least so many bytes, those included that are there."""
    while len(data) < size:
        received = await stream.receive_some(MAX_REPLY)
        if not received:
            raise trio.BrokenResourceError("the server closed the connection")
        data += received
    return data
