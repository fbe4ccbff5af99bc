"""A client's connection to a port: bounds of calls, unread data and of what waits to be sent.

No client can make the process grow. HTTP/2 itself is :mod:`talos.rpc.http2.connection`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast, override

from talos.api.rpc import RpcError
from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import (
    END_STREAM,
    PREFACE,
    Bounds,
    ErrorCode,
    ProtocolError,
    make_reset,
)
from talos.rpc.http2.meter import FrameMeter
from talos.rpc.http2.rules import check_request
from talos.rpc.http2.server_call import check_request_trailers
from talos.rpc.port.addresses import format_address
from talos.rpc.port.call import PortCall
from talos.rpc.port.limits import MAX_FRAME, Limits
from talos.rpc.port.refusals import Refusals
from talos.rpc.port.request import refuse
from talos.rpc.port.tls import Client, RefusedError
from talos.rpc.protocol import REPLY_HEADERS, Headers, Status, make_trailers
from talos.rpc.status import to_rpc_error
from talos.system.logging import Log

STREAM_WINDOW = 65535
"""Initial window of a stream, in bytes: all that a call may send before its handler reads."""

CONNECTION_WINDOW = 65535 * 16
"""Initial window of a connection, in bytes (as upstream)."""

MAX_UNREAD = 4 * 1024 * 1024
"""Data of one connection that no handler has read, before the client has to wait."""

MAX_UNSENT = 1024 * 1024
"""Bytes that wait to be sent. Data waits much earlier; only a flood of control frames gets here."""

WRITE_BUFFER = 64 * 1024
"""Bytes that wait in the transport before senders wait."""

PREFACE_TIMEOUT = 10.0
"""Seconds that a client has to begin HTTP/2 after the TLS handshake."""

type CallHandler = Callable[[PortCall], Awaitable[Status]]


def _make_bounds(limits: Limits) -> Bounds:
    return Bounds(
        frame=MAX_FRAME,
        headers=limits.header_size,
        streams=limits.streams,
        stream_window=STREAM_WINDOW,
        connection_window=CONNECTION_WINDOW,
        unread=MAX_UNREAD,
        unsent=MAX_UNSENT,
    )


class PortConnection(Connection):
    """One client's connection: turns its streams into calls of a handler.

    ``admit`` identifies the client or raises RefusedError; ``leave`` is called when the
    connection has ended. ``memory`` and ``calls`` are shared with the port's other connections.
    """

    peer_preface = PREFACE

    def __init__(
        self,
        handler: CallHandler,
        *,
        admit: Callable[[asyncio.Transport], Client],
        limits: Limits,
        memory: ClientQuota,
        calls: ClientQuota,
        refusals: Refusals,
        log: Log,
        leave: "Callable[[PortConnection], None]",
    ) -> None:
        super().__init__(_make_bounds(limits))
        self.ended = asyncio.Event()
        self._handler = handler
        self._admit = admit
        self._refusals = refusals
        self._log = log
        self._limits = limits
        self._memory = memory
        self._shared_calls = calls
        self._leave = leave
        self._meter = FrameMeter(limits.rates)
        self._client: Client | None = None
        self._was_made = False
        self._calls = 0
        self._unused_since: float | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._preface_timer: asyncio.TimerHandle | None = None
        self._draining = False

    @property
    def client(self) -> Client:
        """The client at the other end."""
        assert self._client is not None
        return self._client

    @property
    def unused_since(self) -> float | None:
        """The time, on the loop's clock, since when there is no call; None while there is one."""
        return None if self._calls else self._unused_since

    # What asyncio calls.

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The TLS handshake is done."""
        self._was_made = True
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER)
        try:
            self._client = self._admit(self.transport)
        except RefusedError as reason:
            self._refuse(str(reason))
            return
        super().connection_made(transport)
        self._preface_timer = self.loop.call_later(
            PREFACE_TIMEOUT, self._refuse, "no HTTP/2 after the handshake"
        )
        self._watch_idleness()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, which cancels every call."""
        super().connection_lost(exc)
        for timer in (self._preface_timer, self._idle):
            if timer is not None:
                timer.cancel()
        for task in self._running:
            task.cancel()
        self._leave(self)
        self.ended.set()

    # What the client does.

    @override
    def measure(self, kind: int, flags: int, number: int, size: int) -> None:
        self._meter.count(kind, flags, number, size)

    @override
    def note_settings(self) -> None:
        if self._preface_timer is not None:
            self._preface_timer.cancel()
            self._preface_timer = None

    @override
    def retire(self, last: int) -> None:
        self.drain()

    @override
    def take_late_headers(self, headers: Headers, *, ended: bool) -> None:
        check_request_trailers(headers, ended=ended)

    @override
    def begin_stream(self, number: int, headers: Headers, *, ended: bool) -> PortCall | None:
        if number % 2 == 0:
            raise ProtocolError("a stream of the server's kind")
        self.last = number
        known = check_request(headers)
        is_full = len(self.streams) >= self._limits.streams or len(self._running) >= 2 * self._limits.streams
        if is_full or self._draining:
            self._meter.resets.count()
            self.write(make_reset(number, ErrorCode.REFUSED_STREAM))
            return None
        if (refusal := refuse(known)) is not None:
            self._answer(number, refusal, ended=ended)
            return None
        try:
            call = PortCall(self, number, known, pairs=headers, client=self.client, memory=self._memory)
        except RpcError as error:
            self._answer(number, REPLY_HEADERS + make_trailers(Status.of(error)), ended=ended)
            return None
        try:
            self._shared_calls.take(self.client.key, 1)
        except RpcError as error:
            call.received_all = ended
            call.finish(Status.of(error))
            return None
        self._calls += 1
        self._watch_idleness()
        self.streams[number] = call
        task = self.loop.create_task(self._serve(call))
        call.cancel = task.cancel
        self._running.add(task)
        # Not the task itself: one that is cancelled before its first step does nothing at all.
        task.add_done_callback(partial(self._end_call, call))
        return call

    def _answer(self, number: int, headers: Headers, *, ended: bool) -> None:
        """Answer a request that does not become a call; the client need not send the rest of it."""
        self.write_headers(number, headers, END_STREAM)
        if not ended:
            self.write(make_reset(number, ErrorCode.NO_ERROR))

    async def _serve(self, call: PortCall) -> None:
        try:
            status = await self._handler(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            status = Status.of(to_rpc_error(error, call.method, self._log))
        call.finish(status)

    def _end_call(self, call: PortCall, task: asyncio.Task[None]) -> None:
        """Give back what a call occupied when its handler has ended, however it did."""
        self._running.discard(task)
        call.release()
        self._calls -= 1
        self._shared_calls.give_back(self.client.key, 1)
        self._watch_idleness()
        if self._limits.one_call:
            self.drain()
        elif self._draining and not self._calls:
            self.close()

    # The connection's own end.

    def _watch_idleness(self) -> None:
        """End the connection when it has had no call for too long."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._calls or self.closed:
            return
        self._unused_since = self.loop.time()
        if self._limits.idle_timeout is not None:
            self._idle = self.loop.call_later(self._limits.idle_timeout, self.drain)

    def drain(self) -> None:
        """Take no new calls, and close when the last one has ended."""
        if not (self._draining or self._client is None or self.closed):
            self._draining = True
            self.refuse_more()
        if not self._calls:
            self.close()

    @override
    def abort(self) -> None:
        """End the connection and its calls now."""
        self._cancel_calls()
        super().abort()

    @override
    def overflow(self) -> None:
        self._refusals.record(self._address(), "it sends requests without reading the answers")
        self.abort()

    @override
    def fail(self, reason: str, code: int) -> None:
        self._refusals.record(self._address(), reason)
        self._cancel_calls()
        super().fail(reason, code)

    async def end(self) -> None:
        """End the connection and wait until its transport is closed."""
        self.abort()
        if self._was_made:
            await self.ended.wait()

    def _refuse(self, reason: str) -> None:
        self._refusals.record(self._address(), reason)
        self._cancel_calls()
        self.close()

    def _cancel_calls(self) -> None:
        for task in self._running:
            task.cancel()

    def _address(self) -> str:
        if self._client is not None:
            return self._client.peer.address
        name = self.transport.get_extra_info("peername") if self.transport is not None else None
        return format_address(name) if name else "unknown"
