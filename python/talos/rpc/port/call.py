"""One call on an HTTP/2 connection, from the server's side."""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Protocol
from urllib.parse import quote_from_bytes

from talos.api.methods import max_request
from talos.api.rpc import Code, RpcError
from talos.rpc.port.tls import Client
from talos.rpc.proxy.raw import (
    RECEIVED_LIMIT,
    Metadata,
    Peer,
    Status,
    check_request,
    check_size,
    is_transport_key,
)

_PREFIX = 5  # of a message: one byte of flags, four of length
_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
MAX_TIMEOUT = 365 * 86400.0
"""Seconds; a longer timeout is this one. Much longer ones overflow in gRPC."""

ARRIVAL = 10.0
"""Seconds within which a call's first request arrives."""

ARRIVAL_RATE = 64 * 1024
"""Bytes for which a large request has another second."""

_MAX_AUTHORITY = 300
_KEY = re.compile(r"[0-9a-z_.\-]+")
_VALUE = re.compile(r"[ -~]*")
_UNQUOTED = bytes(byte for byte in range(0x20, 0x7F) if byte != ord("%"))
_STATUS_MAX_MESSAGE = 4096  # clients refuse replies with more than 8 KiB of headers

type Headers = Iterable[tuple[str, str]]


def parse_timeout(text: str) -> float:
    """The seconds of a ``grpc-timeout`` header."""
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise RpcError(Code.INTERNAL, f'malformed grpc-timeout: "{text}"')
    return min(int(found[1]) * _UNITS[found[2]], MAX_TIMEOUT)


def parse_authority(headers: Mapping[str, str]) -> str:
    """The name by which the client calls this server; RpcError when it is malformed."""
    authority = headers.get(":authority", "")
    if len(authority) > _MAX_AUTHORITY or not _VALUE.fullmatch(authority):
        raise RpcError(Code.INVALID_ARGUMENT, "the :authority header is too long or has illegal characters")
    return authority


def parse_metadata(headers: Headers) -> Metadata:
    """The metadata among a request's headers; RpcError when it is malformed or too much."""
    items: list[tuple[str, str | bytes]] = []
    for key, value in headers:
        if is_transport_key(key):
            continue
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise RpcError(
                Code.INVALID_ARGUMENT, f"the metadata key {key[:64]!r} or its value has illegal characters"
            )
        if key.endswith("-bin"):
            items += ((key, _decode_binary(key, part)) for part in value.split(","))
        else:
            items.append((key, value))
    check_size(items, RECEIVED_LIMIT)
    return tuple(items)


def _decode_binary(key: str, text: str) -> bytes:
    text = text.strip().rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise RpcError(Code.INTERNAL, f'malformed binary metadata "{key}"') from None


def make_headers(metadata: Metadata) -> list[tuple[str, str]]:
    """Metadata as headers."""
    return [
        (key, base64.b64encode(value).rstrip(b"=").decode() if isinstance(value, bytes) else value)
        for key, value in metadata
    ]


def make_trailer_headers(status: Status) -> list[tuple[str, str]]:
    """A status as the headers that end a call."""
    headers = [("grpc-status", str(status.code))]
    if status.message:
        text = status.message.encode(errors="replace")[:_STATUS_MAX_MESSAGE]
        headers.append(("grpc-message", quote_from_bytes(text, safe=_UNQUOTED)))
    return headers + make_headers(status.trailers)


class Carrier(Protocol):
    """What a call needs of its connection; ``stream`` is the call's."""

    @property
    def client(self) -> Client:
        """The client at the other end."""
        ...

    def charge(self, size: int) -> None:
        """Reserve memory for what has arrived, or return it; RpcError when there is too little."""
        ...

    def widen(self, stream: int, size: int) -> None:
        """Allow the client to send a request of up to ``size`` bytes."""
        ...

    def take(self, stream: int, size: int) -> None:
        """Count bytes as read, which lets the client send as many more."""
        ...

    def forget(self, stream: int, size: int) -> None:
        """End a call with bytes that were not read."""
        ...

    def send_headers(self, stream: int, metadata: list[tuple[str, str]]) -> None:
        """Begin a reply."""
        ...

    async def send_data(self, call: "Http2Call", data: bytes) -> None:
        """Send data as the client's windows and the network take it."""
        ...


class Http2Call:
    """A call as the connection's handler gets it."""

    def __init__(self, connection: Carrier, stream: int, headers: dict[str, str], metadata: Metadata) -> None:
        self.method = headers[":path"]
        self.authority = parse_authority(headers)
        self.metadata = metadata
        self.stream = stream
        self.headers_sent = False
        self.ended = False
        self._window = asyncio.Event()
        self._connection = connection
        timeout = headers.get("grpc-timeout")
        self._loop = loop = asyncio.get_running_loop()
        self.deadline = None if timeout is None else loop.time() + parse_timeout(timeout)
        self._due: float | None = loop.time() + ARRIVAL
        self._buffer = bytearray()
        self._unread = 0
        self._charged = 0
        self._failure: RpcError | None = None
        self._arrived = asyncio.Event()

    @property
    def peer(self) -> Peer:
        """The caller's identity."""
        return self._connection.client.peer

    @property
    def client(self) -> str:
        """What the caller's share of limits is counted by."""
        return self._connection.client.key

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None when the call has none."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - self._loop.time())

    def feed(self, data: bytes) -> bool:
        """Data has arrived; false when it is not kept, because the caller has sent too much."""
        if self._failure is not None:
            return False
        try:
            self._connection.charge(len(data))
        except RpcError as failure:
            self._failure = failure
            self._give_up_buffer()
            self._arrived.set()
            return False
        self._charged += len(data)
        self._unread += len(data)
        self._buffer += data
        self._arrived.set()
        return True

    def feed_end(self) -> None:
        """The connection received the end of the requests."""
        self.ended = True
        self._arrived.set()

    def open_window(self) -> None:
        """The caller may be ready to take more data."""
        self._window.set()

    async def wait_for_window(self) -> None:
        """Wait until the caller may be ready to take more data."""
        self._window.clear()
        await self._window.wait()

    def close(self) -> None:
        """Give back what an ended call occupied."""
        self._buffer.clear()
        self._settle()
        unread, self._unread = self._unread, 0
        self._connection.forget(self.stream, unread)

    def _give_up_buffer(self) -> None:
        self._buffer.clear()
        self._settle()
        self._release()

    def _settle(self) -> None:
        """Pay for no more than what is in the buffer: the last message has been passed on."""
        passed_on = self._charged - len(self._buffer)
        self._charged -= passed_on
        if passed_on:
            self._connection.charge(-passed_on)

    def _release(self) -> None:
        """Let the caller send as much as has been taken up."""
        unread, self._unread = self._unread, 0
        self._connection.take(self.stream, unread)

    async def receive(self) -> bytes | None:
        """The next request; None after the last one."""
        self._settle()
        due, self._due = self._due, None
        if due is not None and not self.ended:
            self._connection.widen(self.stream, max_request(self.method))
        if not await self._fill(_PREFIX, due):
            return None
        size = int.from_bytes(self._buffer[1:_PREFIX])
        if self._buffer[0] != 0:
            raise RpcError(Code.UNIMPLEMENTED, "compressed messages are not supported")
        check_request(self.method, size)
        if len(self._buffer) < _PREFIX + size:
            await self._fill(_PREFIX + size, (due or self._loop.time() + ARRIVAL) + size / ARRIVAL_RATE)
        message = bytes(memoryview(self._buffer)[_PREFIX : _PREFIX + size])
        del self._buffer[: _PREFIX + size]
        self._release()
        return message

    async def _fill(self, size: int, due: float | None) -> bool:
        """Wait until the buffer holds so many bytes; false at the end of the requests."""
        while len(self._buffer) < size:
            if self._failure is not None:
                raise self._failure
            if self.ended:
                if self._buffer:
                    raise RpcError(Code.INTERNAL, "the request ended in the middle of a message")
                return False
            self._release()
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(due):
                    await self._arrived.wait()
            except TimeoutError:
                raise RpcError(Code.DEADLINE_EXCEEDED, "the request did not arrive in time") from None
        return True

    async def send_headers(self, metadata: Metadata) -> None:
        """Begin the reply; nothing happens when it has begun."""
        if not self.headers_sent:
            self.headers_sent = True
            self._connection.send_headers(self.stream, make_headers(metadata))

    async def send(self, message: bytes) -> None:
        """Send a reply, waiting while the caller does not read."""
        await self.send_headers(())
        await self._connection.send_data(self, b"\0" + len(message).to_bytes(4) + message)
