"""One call on an HTTP/2 connection, from the server's side."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from talos.api.methods import max_request
from talos.api.rpc import Code, RpcError
from talos.rpc.port.tls import Client
from talos.rpc.protocol import (
    PREFIX,
    Headers,
    framed,
    make_headers,
    make_prefix,
    make_trailers,
    parse_metadata,
    parse_timeout,
)
from talos.rpc.proxy.raw import (
    RECEIVED_LIMIT,
    Metadata,
    Peer,
    Status,
    check_request,
    check_size,
    is_transport_key,
)

ARRIVAL = 10.0
"""Seconds within which a call's first request arrives."""

ARRIVAL_RATE = 64 * 1024
"""Bytes for which a large request has another second."""

COPIED = 64 * 1024
"""Bytes of the largest reply that is copied to be sent in one piece with its prefix."""

_MAX_AUTHORITY = 300
_KEY = re.compile(r"[0-9a-z_.\-]+")
_VALUE = re.compile(r"[ -~]*")
_STATUS_MAX_MESSAGE = 4096  # clients refuse replies with more than 8 KiB of headers


def parse_authority(headers: Mapping[str, str]) -> str:
    """The name by which the client calls this server; RpcError when it is malformed."""
    authority = headers.get(":authority", "")
    if len(authority) > _MAX_AUTHORITY or not _VALUE.fullmatch(authority):
        raise RpcError(Code.INVALID_ARGUMENT, "the :authority header is too long or has illegal characters")
    return authority


def parse_request_metadata(headers: Iterable[tuple[str, str]]) -> Metadata:
    """The metadata of a request from the network; RpcError when it is malformed or too much."""
    pairs = [(key, value) for key, value in headers if not is_transport_key(key)]
    for key, value in pairs:
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise RpcError(
                Code.INVALID_ARGUMENT, f"the metadata key {key[:64]!r} or its value has illegal characters"
            )
    metadata = parse_metadata(pairs)
    check_size(metadata, RECEIVED_LIMIT)
    return metadata


def make_short_trailers(status: Status) -> Headers:
    """A status as the headers that end a call, within what clients accept."""
    return make_trailers(status, max_message=_STATUS_MAX_MESSAGE)


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

    def send_headers(self, stream: int, headers: Headers) -> None:
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
        if not await self._fill(PREFIX, due):
            return None
        size = int.from_bytes(self._buffer[1:PREFIX])
        if self._buffer[0] != 0:
            raise RpcError(Code.UNIMPLEMENTED, "compressed messages are not supported")
        check_request(self.method, size)
        if len(self._buffer) < PREFIX + size:
            await self._fill(PREFIX + size, (due or self._loop.time() + ARRIVAL) + size / ARRIVAL_RATE)
        message = bytes(memoryview(self._buffer)[PREFIX : PREFIX + size])
        del self._buffer[: PREFIX + size]
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
        if len(message) <= COPIED:
            await self._connection.send_data(self, framed(message))
        else:
            await self._connection.send_data(self, make_prefix(message))
            await self._connection.send_data(self, message)
