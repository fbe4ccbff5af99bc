"""A call from its server's end, on a unix socket or on a port."""

import asyncio
from collections.abc import Callable
from typing import override

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.backend import AsyncBackend
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import END_STREAM, ErrorCode, ProtocolError, make_reset
from talos.rpc.http2.rules import check_trailers
from talos.rpc.http2.stream import Stream
from talos.rpc.limits import SMALL_MESSAGE
from talos.rpc.protocol import (
    DEADLINE_EXCEEDED,
    REPLY_HEADERS,
    Headers,
    Metadata,
    Status,
    framed,
    make_headers,
    make_prefix,
    make_trailers,
    parse_timeout,
)

STOPPING = Status(code=Code.UNAVAILABLE, message="the server is shutting down")

NOT_READ = Status(code=Code.DEADLINE_EXCEEDED, message="the reply was not read in time")


class ServerCall(Stream):
    """A call as its handler gets it; see :class:`talos.rpc.proxy.raw.RawCall`.

    ``cancel`` is set by the code that runs the handler, and called when the caller cancels or the
    deadline passes. ``timeout`` is the text of the header, None without one, and ``body`` the length
    of the request, with its prefixes, if it was announced.
    """

    def __init__(
        self,
        connection: Connection,
        number: int,
        backend: AsyncBackend,
        *,
        method: str,
        metadata: Metadata,
        timeout: str | None,
        max_message: int,
        body: int | None = None,
    ) -> None:
        super().__init__(connection, number, backend, max_message=max_message)
        self.body_left = body
        self.method = method
        self.metadata = metadata
        self.cancel: Callable[[], object] = _nothing
        self.ended = False
        self.max_stall: float | None = None
        self.deadline: float | None = None
        self._headers_sent = False
        self._timer: asyncio.TimerHandle | None = None
        if timeout is not None:
            seconds = parse_timeout(timeout)
            self.deadline = connection.loop.time() + seconds
            self._timer = connection.loop.call_later(seconds, self._expire)

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None when the call has none."""
        return None if self.deadline is None else max(0.0, self.deadline - self.connection.loop.time())

    @override
    def take_headers(self, headers: Headers, *, ended: bool) -> None:
        """Trailers of a request have no use."""
        check_request_trailers(headers, ended=ended)

    @override
    def end_with(self, failure: RpcError) -> None:
        """The caller has cancelled, or its connection has ended."""
        super().end_with(failure)
        self.close()
        self.cancel()

    @override
    def stall(self) -> None:
        self._end(NOT_READ)

    def _expire(self) -> None:
        self._end(DEADLINE_EXCEEDED)

    def _end(self, status: Status) -> None:
        self.finish(status)
        super().end_with(RpcError(Code(status.code), status.message))
        self.cancel()

    def close(self) -> None:
        """Forget the call: it has ended."""
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
        if len(message) <= SMALL_MESSAGE:
            await self.send_data(framed(message))
        else:
            await self.send_data(make_prefix(message), max_stall=self.max_stall)
            await self.send_data(message, max_stall=self.max_stall)

    def finish(self, status: Status) -> None:
        """End the call; nothing happens when it has ended."""
        if self.ended:
            return
        trailers = make_trailers(status)
        if not self._headers_sent:
            trailers = REPLY_HEADERS + trailers
        self.connection.write_headers(self.number, trailers, END_STREAM)
        if not self.received_all:
            # The caller need not send the rest of its request.
            self.connection.write(make_reset(self.number, ErrorCode.NO_ERROR))
            self.connection.abandon(self.number, self.body_left)
        self.close()


def check_request_trailers(headers: Headers, *, ended: bool) -> None:
    """Refuse headers after those that a request began with, unless they are its trailers."""
    if not ended:
        raise ProtocolError("headers in the middle of a request")
    check_trailers(headers)


def _nothing() -> None:
    """Before a handler runs there is nothing to cancel."""
