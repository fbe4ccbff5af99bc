"""A gRPC server on a unix socket, whose handler gets every call, whatever its service."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import override

from talos.api.rpc import RpcError
from talos.rpc.http2.call import STOPPING, ServerCall
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import END_STREAM, PREFACE, Bounds, ErrorCode, ProtocolError, make_reset
from talos.rpc.http2.stream import Stream, Waiting
from talos.rpc.protocol import REPLY_HEADERS, Headers, make_trailers, parse_metadata
from talos.rpc.proxy.raw import Status

SOCKET_UMASK = 0o117
"""Sockets are 0660; the group comes from their directory, which is setgid."""


class _ServerConnection(Connection):
    expected = PREFACE

    def __init__(self, server: "LocalServer") -> None:
        super().__init__(Bounds())
        self._server = server

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
        if number % 2 == 0:
            raise ProtocolError("a stream of the server's kind")
        if number <= self.last:
            return None  # trailers of a call that has ended here
        self.last = number
        if len(self.streams) >= self.bounds.streams:
            self.write(make_reset(number, ErrorCode.REFUSED_STREAM))
            return None
        try:
            call = self._make_call(number, headers)
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

    def _make_call(self, number: int, headers: Headers) -> ServerCall:
        known = dict(headers)
        method = known.get(":path", "")
        return ServerCall(
            self,
            number,
            self._server.waiting,
            method=method,
            metadata=parse_metadata(headers),
            timeout=known.get("grpc-timeout"),
            max_message=self._server.max_message(method),
        )


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
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener
