"""A gRPC server on a unix socket, whose handler gets every call, whatever its service."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import override

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.connection import (
    END_STREAM,
    MAX_STREAMS,
    NO_ERROR,
    PREFACE,
    REFUSED_STREAM,
    Connection,
    Kind,
    ProtocolError,
    make_frame,
)
from talos.rpc.http2.stream import Stream, Waiting
from talos.rpc.protocol import (
    REPLY_HEADERS,
    Headers,
    framed,
    make_headers,
    make_trailers,
    parse_metadata,
    parse_timeout,
)
from talos.rpc.proxy.raw import DEADLINE_EXCEEDED, Metadata, Status

SOCKET_UMASK = 0o117
"""Sockets are 0660; the group comes from their directory, which is setgid."""

STOPPING = Status(code=Code.UNAVAILABLE, message="the server is shutting down")


class ServerCall(Stream):
    """A call as its handler gets it; see :class:`talos.rpc.proxy.raw.RawCall`.

    ``cancel`` is set by the code that runs the handler, and called when the caller cancels or the
    deadline passes.
    """

    def __init__(self, connection: Connection, number: int, headers: Headers, server: "LocalServer") -> None:
        known = dict(headers)
        self.method = known.get(":path", "")
        super().__init__(connection, number, server.waiting, max_message=server.max_message(self.method))
        self.metadata: Metadata = parse_metadata(headers)
        self.cancel: Callable[[], object] = _nothing
        self.ended = False
        self.deadline: float | None = None
        self._headers_sent = False
        self._timer: asyncio.TimerHandle | None = None
        if (timeout := known.get("grpc-timeout")) is not None:
            seconds = parse_timeout(timeout)
            self.deadline = connection.loop.time() + seconds
            self._timer = connection.loop.call_later(seconds, self._expire)

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None when the call has none."""
        return None if self.deadline is None else max(0.0, self.deadline - self.connection.loop.time())

    @override
    def end_with(self, failure: RpcError) -> None:
        """The caller has cancelled, or its connection has ended."""
        super().end_with(failure)
        self._close()
        self.cancel()

    def _expire(self) -> None:
        self.finish(DEADLINE_EXCEEDED)
        super().end_with(RpcError(Code.DEADLINE_EXCEEDED, DEADLINE_EXCEEDED.message))
        self.cancel()

    def _close(self) -> None:
        self.ended = True
        self.connection.streams.pop(self.number, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def send_headers(self, metadata: Metadata) -> None:
        """Begin the reply; nothing happens when it has begun."""
        if not self._headers_sent and not self.ended:
            self._headers_sent = True
            headers = REPLY_HEADERS + make_headers(metadata) if metadata else REPLY_HEADERS
            self.connection.write_headers(self.number, headers)

    async def send(self, message: bytes) -> None:
        """Send a reply, waiting while the caller does not read."""
        await self.send_headers(())
        await self.send_data(framed(message))

    def finish(self, status: Status) -> None:
        """End the call; nothing happens when it has ended."""
        if self.ended:
            return
        trailers = make_trailers(status)
        if not self._headers_sent:
            trailers = REPLY_HEADERS + trailers
        self.connection.write_headers(self.number, trailers, END_STREAM)
        if not self.received_all:
            self.connection.write(make_frame(Kind.RST_STREAM, 0, self.number, NO_ERROR.to_bytes(4)))
        self._close()


def _nothing() -> None:
    """Before a handler runs there is nothing to cancel."""


class _ServerConnection(Connection):
    expected = PREFACE

    def __init__(self, server: "LocalServer") -> None:
        super().__init__()
        self._server = server
        self._last = 0

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.connections.discard(self)

    @override
    def begin_stream(self, number: int, headers: Headers) -> Stream | None:
        if number <= self._last or number % 2 == 0:
            if number <= self._last:
                return None  # trailers of a call that has ended here
            raise ProtocolError("a stream of the server's kind")
        self._last = number
        if len(self.streams) >= MAX_STREAMS:
            self.write(make_frame(Kind.RST_STREAM, 0, number, REFUSED_STREAM.to_bytes(4)))
            return None
        try:
            call = ServerCall(self, number, headers, self._server)
        except RpcError as error:
            trailers = make_trailers(Status.of(error))
            self.write_headers(number, REPLY_HEADERS + trailers, END_STREAM)
            return None
        self.streams[number] = call
        if self._server.stopping:
            call.finish(STOPPING)
            return None
        self._server.begin(call)
        return call


class LocalServer:
    """Made, started and stopped on asyncio.

    ``begin`` starts the work on a call and returns; ``max_message`` gives the limit of a method's requests.
    """

    def __init__(
        self, begin: Callable[[ServerCall], None], waiting: Waiting, max_message: Callable[[str], int]
    ) -> None:
        self.begin = begin
        self.max_message = max_message
        self.waiting = waiting
        self.connections: set[_ServerConnection] = set()
        self.stopping = False
        self._server: asyncio.Server | None = None

    async def start(self, path: Path | str) -> None:
        """Listen on a socket that owner and group may use."""
        loop, listener = asyncio.get_running_loop(), _bind(Path(path))
        self._server = await loop.create_unix_server(lambda: _ServerConnection(self), sock=listener)

    async def stop(self, grace: float) -> None:
        """Take no more calls, give the open ones ``grace`` seconds, then cancel them."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        for connection in self.connections:
            connection.refuse_more()
        end = asyncio.get_running_loop().time() + grace
        while any(connection.streams for connection in self.connections):
            remaining = end - asyncio.get_running_loop().time()
            if remaining <= 0:
                break
            await asyncio.sleep(min(remaining, 0.02))
        for connection in tuple(self.connections):
            for stream in tuple(connection.streams.values()):
                if isinstance(stream, ServerCall):
                    stream.finish(STOPPING)
                    stream.cancel()
            connection.close()
        await asyncio.sleep(0)  # let the handlers see their cancellation


def _bind(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(SOCKET_UMASK)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    return listener
