"""A gRPC server on a unix socket, whose handler gets every call, whatever its service."""

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast, override

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.backend import AsyncBackend
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import END_STREAM, PREFACE, ErrorCode, ProtocolError, make_reset
from talos.rpc.http2.local_limits import LocalLimits, read_peer
from talos.rpc.http2.meter import FrameMeter
from talos.rpc.http2.rules import Known, check_request, parse_length
from talos.rpc.http2.server_call import STOPPING, ServerCall, check_request_trailers
from talos.rpc.http2.stream import Stream
from talos.rpc.protocol import PREFIX, REPLY_HEADERS, Headers, Status, make_trailers, parse_metadata
from talos.system.logging import Log

SOCKET_UMASK = 0o117
"""Sockets are 0660; the group comes from their directory, which is setgid."""

_FULL = Status(code=Code.RESOURCE_EXHAUSTED, message="too much is being sent at a time, try again")


class _ServerConnection(Connection):
    peer_preface = PREFACE

    def __init__(self, server: "LocalServer") -> None:
        super().__init__(server.limits.bounds)
        self._server = server
        self._meter = FrameMeter() if server.limits.is_metered else None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._server.admit(transport):
            self.closed = True
            cast("asyncio.Transport", transport).abort()
            return
        super().connection_made(transport)
        self._server.connections.add(self)

    @override
    def measure(self, kind: int, flags: int, number: int, size: int) -> None:
        if self._meter is not None:
            self._meter.count(kind, flags, number, size)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.connections.discard(self)

    @override
    def take_late_headers(self, headers: Headers, *, ended: bool) -> None:
        check_request_trailers(headers, ended=ended)

    @override
    def begin_stream(self, number: int, headers: Headers, *, ended: bool) -> Stream | None:
        if number % 2 == 0:
            raise ProtocolError("a stream of the server's kind")
        self.last = number
        known = check_request(headers)
        if len(self.streams) >= self.bounds.streams:
            self.write(make_reset(number, ErrorCode.REFUSED_STREAM))
            return None
        try:
            call = self._make_call(number, headers, known)
        except RpcError as error:
            trailers = make_trailers(Status.of(error))
            self.write_headers(number, REPLY_HEADERS + trailers, END_STREAM)
            if not ended:
                self.write(make_reset(number, ErrorCode.NO_ERROR))
            return None
        self.streams[number] = call
        if self._server.stopping:
            call.received_all = ended
            call.finish(STOPPING)
            return None
        self._server.begin(call)
        return call

    def _make_call(self, number: int, headers: Headers, known: Known) -> ServerCall:
        method = known[":path"]
        make = (
            ServerCall if self._server.limits.request_memory is None else partial(_CountedCall, self._server)
        )
        return make(
            self,
            number,
            self._server.backend,
            method=method,
            metadata=parse_metadata(headers),
            timeout=known.get("grpc-timeout"),
            max_message=self._server.max_message(method),
            body=parse_length(known),
        )


class _CountedCall(ServerCall):
    """A call whose request counts for the server's memory until its handler has it."""

    def __init__(self, server: "LocalServer", *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._server = server
        self._held = 0

    @override
    def feed(self, data: memoryview, size: int) -> None:
        if not self.ended and not self._server.hold(len(data)):
            self.finish(_FULL)
            self.cancel()
        if not self.ended:
            self._held += len(data)
            super().feed(data, size)

    @override
    async def receive(self) -> bytes | None:
        message = await super().receive()
        if message is not None:
            self._give_back(min(self._held, PREFIX + len(message)))
        return message

    @override
    def close(self) -> None:
        super().close()
        self._give_back(self._held)

    def _give_back(self, size: int) -> None:
        self._held -= size
        self._server.held -= size


class LocalServer:
    """Made, started and stopped on asyncio.

    ``begin`` starts the work on a call and returns; ``max_message`` gives the limit of a method's requests.
    Only root, the server's own uid and callers are answered, however a client found the socket.
    """

    def __init__(
        self,
        begin: Callable[[ServerCall], None],
        backend: AsyncBackend,
        max_message: Callable[[str], int],
        log: Log,
        limits: LocalLimits | None = None,
    ) -> None:
        self.begin = begin
        self.max_message = max_message
        self.backend = backend
        self.limits = limits or LocalLimits()
        self.connections: set[_ServerConnection] = set()
        self.held = 0
        self.stopping = False
        self._log = log
        self._callers = self.limits.callers | {0, os.geteuid()}
        self._path = ""
        self._server: asyncio.Server | None = None

    def admit(self, transport: asyncio.BaseTransport) -> bool:
        """Whether a connection may go on. Refusals are logged, once for each reason."""
        uid = read_peer(transport.get_extra_info("socket"))
        if uid not in self._callers:
            self._log.once("a connection is refused", key=f"{self._path} {uid}", socket=self._path, uid=uid)
            return False
        if len(self.connections) >= self.limits.connections:
            self._log.once("too many connections to a socket", key=self._path, socket=self._path, uid=uid)
            return False
        return True

    def hold(self, size: int) -> bool:
        """Count bytes of a request that has begun to arrive; whether there is room for them."""
        if self.limits.request_memory is not None and self.held + size > self.limits.request_memory:
            return False
        self.held += size
        return True

    async def start(self, path: Path | str) -> None:
        """Listen on a socket that owner and group may use."""
        self._path = str(path)
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
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener
