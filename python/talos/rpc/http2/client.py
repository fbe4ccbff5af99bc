"""A gRPC client: connects when it is needed, and again after the other side was restarted."""

import asyncio
from pathlib import Path
from typing import override

from talos.api.rpc import Code, RpcError
from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.backend import AsyncBackend
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import (
    END_STREAM,
    MAX_WINDOW,
    PREFACE,
    Bounds,
    ErrorCode,
    Kind,
    ProtocolError,
    make_frame,
    make_reset,
)
from talos.rpc.http2.rules import check_reply, check_trailers, parse_length
from talos.rpc.http2.stream import Stream
from talos.rpc.limits import MAX_MESSAGE, SMALL_MESSAGE, WIDE_WINDOW
from talos.rpc.protocol import (
    DEADLINE_EXCEEDED,
    Headers,
    Metadata,
    Status,
    find_foreign_reply,
    framed,
    make_headers,
    make_timeout,
    parse_metadata,
    parse_trailers,
)
from talos.system.backoff import Backoff

RETRY_BACKOFF = Backoff(0.02, 1.0)
"""Seconds between attempts to connect; short, so that a restarted daemon is found soon."""

_CANCELLED = RpcError(Code.CANCELLED, "the call was cancelled")
_CLOSED = RpcError(Code.CANCELLED, "the channel was closed")


class NotConnectedError(RpcError):
    """The server can't be reached."""


class ClientCall(Stream):
    """An open call. End it by :meth:`cancel`, which does nothing to one that has ended."""

    def __init__(self, connection: Connection, number: int, backend: AsyncBackend, max_message: int) -> None:
        super().__init__(connection, number, backend, max_message=max_message)
        self.headers: Metadata | None = None
        self.status: Status | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._memory: ClientQuota | None = None
        self._client = ""
        self._held = 0
        self._lent = 0

    def charge(self, memory: ClientQuota, client: str, max_message: int) -> None:
        """Bound the replies, and count large ones, from their first bytes on, for who will read them.

        A stream that is in use gets a wider window while some is spare; :meth:`leave` gives it back.
        """
        self._memory, self._client, self.max_message = memory, client, max_message

    @override
    def expect(self, size: int) -> None:
        if size > SMALL_MESSAGE and self._memory is not None and not self._held:
            self._memory.take(self._client, size)
            self._held = size

    def release(self) -> None:
        """The last reply is held no more."""
        if self._held and self._memory is not None:
            self._memory.give_back(self._client, self._held)
            self._held = 0

    def leave(self) -> None:
        """Cancel the call, unless it has ended, and give back what it holds."""
        self.cancel()
        self.release()
        if self._memory is not None:
            self._memory.lend(-self._lent)
            self._memory, self._lent = None, 0

    @override
    def widening(self) -> int:
        if self._lent or self._memory is None or not self._memory.lend(WIDE_WINDOW):
            return 0
        self._lent = WIDE_WINDOW
        return WIDE_WINDOW

    @override
    def take_headers(self, headers: Headers, *, ended: bool) -> None:
        try:
            self._take_headers(headers, ended=ended)
        except RpcError as error:  # malformed metadata ends this call, and not the connection with all others
            self.cancel(error)

    def _take_headers(self, headers: Headers, *, ended: bool) -> None:
        if self.headers is not None:
            check_trailers(headers)
            if not ended:
                raise ProtocolError("headers in the middle of a reply")
            self._close(parse_trailers(headers))
            return
        known = check_reply(headers)
        if ended:
            self._close(parse_trailers(headers))
        elif not known[":status"].startswith("1"):  # that of the reply is still to come
            self.body_left = parse_length(known)
            if (foreign := find_foreign_reply(known)) is not None:
                raise foreign
            self.headers = parse_metadata(headers)
            self.wake()

    @override
    def feed_end(self) -> None:
        if self.status is None:
            self._close(Status(code=Code.INTERNAL, message="the reply ended without a status"))
        super().feed_end()

    @override
    def end_with(self, failure: RpcError) -> None:
        if self.status is None:
            self._close(Status.of(failure))
        super().end_with(failure)

    @override
    def reset(self, code: int) -> None:
        # A server cancels a call at its deadline, which it was sent: it may be faster than the timer here.
        if (
            code == ErrorCode.CANCEL
            and self.timer is not None
            and self.timer.when() <= self.connection.loop.time()
        ):
            self.end_with(RpcError(Code.DEADLINE_EXCEEDED, DEADLINE_EXCEEDED.message))
        else:
            super().reset(code)

    def expire(self) -> None:
        """The deadline has passed."""
        self.cancel(RpcError(Code.DEADLINE_EXCEEDED, DEADLINE_EXCEEDED.message))

    def cancel(self, failure: RpcError = _CANCELLED) -> None:
        """Cancel the call, with this failure as its status."""
        if self.status is None:
            self._reset()
            self.end_with(failure)

    def _reset(self) -> None:
        if not self.connection.closed:
            self.connection.write(make_reset(self.number, ErrorCode.CANCEL))
            self.connection.abandon(self.number, self.body_left)

    def _close(self, status: Status) -> None:
        self.status = status
        self.connection.streams.pop(self.number, None)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if not self.received_all:
            # The other side reads nothing more.
            self.failure = self.failure or RpcError(Code.CANCELLED, "the call has ended")
        self.wake_writer()

    @override
    async def receive(self) -> bytes | None:
        """The next reply; None when there are no more and ``status`` is set."""
        try:
            return await super().receive()
        except RpcError as error:
            if error is self.failure and self.status is not None:
                return None
            raise

    async def initial_metadata(self) -> Metadata:
        """The metadata that the reply begins with; empty when it ended without any."""
        while self.headers is None and self.status is None:
            await self.wait()
        return self.headers or ()

    async def end(self) -> Status:
        """How the call ended."""
        while self.status is None:
            await self.wait()
        return self.status

    async def send(self, message: bytes, *, last: bool = False) -> None:
        """Send a request, waiting while the other side does not read."""
        await self.send_data(framed(message), last=last)

    def send_end(self) -> None:
        """There are no more requests."""
        if self.failure is None:
            self.connection.write(make_frame(Kind.DATA, END_STREAM, self.number, b""))


class ClientConnection(Connection):
    """The client's end of a connection. Replies have at most ``max_message`` bytes."""

    greeting = PREFACE

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
