"""A gRPC client: connects when it is needed, and again after the other side was restarted."""

import asyncio
from pathlib import Path
from typing import override

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.backend import AsyncBackend
from talos.rpc.http2.client_call import ClientCall
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import (
    MAX_WINDOW,
    PREFACE,
    Bounds,
    ProtocolError,
)
from talos.rpc.http2.stream import Stream
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.protocol import (
    Headers,
    Metadata,
    make_headers,
    make_timeout,
)
from talos.system.backoff import Backoff

RETRY_BACKOFF = Backoff(0.02, 1.0)
"""Seconds between attempts to connect; short, so that a restarted daemon is found soon."""

_CLOSED = RpcError(Code.CANCELLED, "the channel was closed")


class NotConnectedError(RpcError):
    """The server can't be reached."""


class ClientConnection(Connection):
    """The client's end of a connection. Replies have at most ``max_message`` bytes."""

    preface = PREFACE

    def __init__(self, bounds: Bounds | None = None, *, max_message: int = MAX_MESSAGE) -> None:
        super().__init__(bounds or Bounds())
        self.retired = False
        self._max_message = max_message

    @override
    def begin_stream(self, number: int, headers: Headers, *, ended: bool) -> Stream | None:
        raise ProtocolError(f"stream {number} begun by the server")

    @property
    def usable(self) -> bool:
        """Whether new calls may begin here."""
        return not (self.closed or self.retired or self.last + 2 > MAX_WINDOW)

    @override
    def retire(self, last: int) -> None:
        self.retired = True
        for number, stream in tuple(self.streams.items()):
            if number > last:
                stream.mark_lost("the server is shutting down")
        if not self.streams:
            self.close()

    def begin(self, headers: Headers, backend: AsyncBackend) -> ClientCall:
        """Begin a call."""
        call = ClientCall(self, self.next, backend, self._max_message)
        self.begin_call(call, headers)
        return call

    @property
    def next(self) -> int:
        """The number of the next call."""
        return self.last + 2 if self.last else 1

    def begin_call(self, call: ClientCall, headers: Headers) -> None:
        """Begin a call that was made with the next number."""
        self.last = call.number
        self.streams[call.number] = call
        self.write_headers(call.number, headers)


class Channel:
    """Calls to one server, called ``place`` in errors. Made on asyncio; calls wait by ``backend``.

    Subclasses connect.
    """

    scheme = "http"
    authority = "localhost"

    def __init__(self, place: str, backend: AsyncBackend, *, wait_for_ready: bool = False) -> None:
        self._place = place
        self._backend = backend
        self._wait_for_ready = wait_for_ready
        self._loop = asyncio.get_running_loop()
        self._connection: ClientConnection | None = None
        self._attempt: asyncio.Task[None] | None = None
        self._reason: OSError | None = None
        self._closed = False

    async def begin(self, method: str, metadata: Metadata, timeout: float | None) -> ClientCall:  # noqa: ASYNC109
        """Begin a call; NotConnectedError when no server listens, unless the channel waits for one."""
        connection = self._connection
        if connection is None or not connection.usable:
            connection = await self._connect()
        if len(connection.streams) >= connection.max_streams:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"too many calls to {self._place} at a time, try again")
        headers: Headers = (
            (":method", "POST"),
            (":scheme", self.scheme),
            (":path", method),
            (":authority", self.authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *make_headers(metadata),
        )
        if timeout is not None:
            headers = (*headers, ("grpc-timeout", make_timeout(timeout)))
        call = connection.begin(headers, self._backend)
        if timeout is not None:
            call.timer = self._loop.call_later(timeout, call.expire)
        return call

    async def dial(self) -> ClientConnection:
        """Make a connection; OSError."""
        raise NotImplementedError

    async def _connect(self) -> ClientConnection:
        delays = iter(RETRY_BACKOFF)
        # The failure of an attempt that began before this call is none of a server that came up since:
        # the kernel tries ever less often.
        is_older = self._attempt is not None
        while True:
            if self._closed:
                raise _CLOSED
            if self._attempt is None:
                self._attempt = self._loop.create_task(self._try())
            attempt, done = self._attempt, self._backend.event()
            attempt.add_done_callback(lambda _, done=done: done.set())
            await done.wait()
            if self._attempt is attempt:
                self._attempt = None
            if self._connection is not None and self._connection.usable:
                return self._connection
            if is_older:
                is_older = False
                continue
            if not self._wait_for_ready:
                reason = (self._reason and self._reason.strerror) or self._reason
                raise NotConnectedError(Code.UNAVAILABLE, f"failed to connect to {self._place}: {reason}")
            await self._backend.sleep(next(delays))

    async def _try(self) -> None:
        try:
            self._connection = await self.dial()
        except OSError as error:
            self._reason = error
        else:
            # Of a connection that is no longer usable when the call goes on.
            self._reason = OSError("the server has ended the connection at once")

    def close(self) -> None:
        """End the connection and every call on it."""
        self._closed = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            for stream in tuple(self._connection.streams.values()):
                stream.end_with(_CLOSED)
            self._connection.close()


class LocalChannel(Channel):
    """Calls to the server behind a unix socket."""

    def __init__(self, path: Path | str, backend: AsyncBackend, *, wait_for_ready: bool = False) -> None:
        super().__init__(str(path), backend, wait_for_ready=wait_for_ready)

    @override
    async def dial(self) -> ClientConnection:
        _, connection = await self._loop.create_unix_connection(ClientConnection, self._place)
        return connection
