"""The client's end of a call."""

import asyncio
from typing import override

from talos.api.rpc import Code, RpcError
from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.backend import AsyncBackend
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import (
    END_STREAM,
    ErrorCode,
    Kind,
    ProtocolError,
    make_frame,
    make_reset,
)
from talos.rpc.http2.rules import check_reply, check_trailers, parse_length
from talos.rpc.http2.stream import Stream
from talos.rpc.limits import SMALL_MESSAGE, WIDE_WINDOW
from talos.rpc.protocol import (
    DEADLINE_EXCEEDED,
    Headers,
    Metadata,
    Status,
    find_foreign_reply,
    framed,
    parse_metadata,
    parse_trailers,
)

_CANCELLED = RpcError(Code.CANCELLED, "the call was cancelled")


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
