"""gRPC over HTTP/2 without a schema: a connection's server side, on asyncio.

It stands on h2. What it adds is bounds: of messages, metadata, calls, unread data and of what
waits to be sent, so that no client can make the process grow.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast, override

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hyperframe.frame
from h2.errors import ErrorCodes

from talos.api.rpc import Code, RpcError
from talos.rpc.port.addresses import format_address
from talos.rpc.port.call import Carrier, Http2Call, make_short_trailers, parse_request_metadata
from talos.rpc.port.flow import CONNECTION_WINDOW, STREAM_WINDOW, ReceiveFlow
from talos.rpc.port.frames import FrameMeter
from talos.rpc.port.limits import Limits, Shares
from talos.rpc.port.refusals import Refusals
from talos.rpc.port.tls import Client, RefusedError
from talos.rpc.protocol import REPLY_HEADERS, Headers
from talos.rpc.proxy.raw import DEADLINE_EXCEEDED, Status
from talos.rpc.status import to_rpc_error
from talos.system.logging import Log

SEND_LIMIT = 1024 * 1024
"""Bytes that wait to be sent. Data waits much earlier; only a flood of control frames gets here."""

FLUSH_SIZE = 64 * 1024
"""Bytes that are collected before they are handed to the transport, and that wait in there."""

GREETING_TIMEOUT = 10.0
"""Seconds that a client has to begin HTTP/2 after the TLS handshake."""

_SETTINGS = h2.settings.SettingCodes

type CallHandler = Callable[[Http2Call], Awaitable[Status]]


def _make_connection(limits: Limits) -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(
            client_side=False,
            # Never fails; what is not ASCII is refused with the call's metadata.
            header_encoding="latin-1",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    connection.local_settings = h2.settings.Settings(
        client=False,
        initial_values={
            _SETTINGS.MAX_CONCURRENT_STREAMS: limits.streams,
            _SETTINGS.MAX_HEADER_LIST_SIZE: limits.header_size,
            _SETTINGS.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        },
    )
    connection.initiate_connection()
    connection.increment_flow_control_window(CONNECTION_WINDOW - connection.inbound_flow_control_window)
    return connection


class Http2Connection(asyncio.Protocol, Carrier):
    """One client's connection: turns its streams into calls of a handler.

    ``admit`` identifies the client or raises RefusedError; ``leave`` is called when the
    connection has ended. ``memory`` and ``calls`` are shared with the port's other connections.
    """

    def __init__(
        self,
        handler: CallHandler,
        *,
        admit: Callable[[asyncio.Transport], Client],
        limits: Limits,
        memory: Shares,
        calls: Shares,
        refusals: Refusals,
        log: Log,
        leave: "Callable[[Http2Connection], None]",
    ) -> None:
        self.closed = asyncio.Event()
        self._handler = handler
        self._admit = admit
        self._refusals = refusals
        self._log = log
        self._limits = limits
        self._memory = memory
        self._open_calls = calls
        self._leave = leave
        self._unused_since: float | None = None
        self._meter = FrameMeter(limits.header_size)
        self._idle: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._transport: asyncio.Transport | None = None
        self._was_made = False
        self._h2 = _make_connection(limits)
        self._flow = ReceiveFlow(self._h2, self._is_open)
        self._calls: dict[int, Http2Call] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._writable = asyncio.Event()
        self._writable.set()
        self._unsent = 0
        self._flush_due = False
        self._draining = False
        self._greeting: asyncio.TimerHandle | None = None

    @property
    @override
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @property
    def unused_since(self) -> float | None:
        """The time, on the loop's clock, since when there is no call; None while there is one."""
        return None if self._calls else self._unused_since

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The TLS handshake is done."""
        self._was_made = True
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=FLUSH_SIZE)
        try:
            self._client = self._admit(self._transport)
        except RefusedError as reason:
            self._refuse(str(reason))
            return
        self._greeting = self._loop.call_later(
            GREETING_TIMEOUT, self._refuse, "no HTTP/2 after the handshake"
        )
        self._watch_idleness()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        if self._transport is None or self._client is None or self._transport.is_closing():
            return
        try:
            self._meter.feed(data)
            for event in self._h2.receive_data(data):
                self._dispatch(event)
        except (h2.exceptions.ProtocolError, UnicodeError, ValueError, KeyError) as error:
            # For some malformed input h2 raises plain errors, not its own.
            self._flush()
            self._refuse(f"HTTP/2 protocol error: {error or type(error).__name__}")
            return
        self._flush()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The connection is closed, which cancels every call."""
        for timer in (self._greeting, self._idle):
            if timer is not None:
                timer.cancel()
        for task in self._running:
            task.cancel()
        # asyncio's TLS refers to this object and the other way round.
        self._transport = None
        self._flow.close()
        self._leave(self)
        self.closed.set()

    # What the client does.

    def _dispatch(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.DataReceived():
                self._take_data(event)
            case h2.events.RequestReceived():
                self._begin(event)
            case h2.events.StreamEnded() | h2.events.StreamReset():
                self._end_request(event)
            case h2.events.WindowUpdated(stream_id=int(stream)):
                self._open_windows(stream)
            case h2.events.RemoteSettingsChanged():
                if self._greeting is not None:
                    self._greeting.cancel()
                    self._greeting = None
                self._open_windows(0)
            case h2.events.ConnectionTerminated():
                self._close()
            case _:
                pass

    def _end_request(self, event: h2.events.StreamEnded | h2.events.StreamReset) -> None:
        call = self._calls.get(event.stream_id or 0)
        if call is None:
            return
        if isinstance(event, h2.events.StreamReset):
            self._tasks[call.stream].cancel()
        else:
            call.feed_end()

    def _open_windows(self, stream: int) -> None:
        """The client takes more data: on one stream, or with 0 on any."""
        for number in (stream,) if stream else tuple(self._calls):
            if (call := self._calls.get(number)) is not None:
                call.open_window()

    def _begin(self, event: h2.events.RequestReceived) -> None:
        stream = event.stream_id or 0
        if not self._can_send(stream):
            return  # already cancelled by the same data
        if self._draining or len(self._running) >= 2 * self._limits.streams:
            self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            return
        headers = cast("list[tuple[str, str]]", event.headers)
        first = dict(headers)
        if (refusal := _check_request(first)) is not None:
            self._h2.send_headers(stream, refusal, end_stream=True)
            self._end_stream(stream)
            return
        try:
            call = Http2Call(self, stream, first, parse_request_metadata(headers))
            self._open_calls.take(self.client.key, 1)
        except RpcError as error:
            self._send_trailers(stream, Status.of(error), begun=False)
            return
        self._calls[stream] = call
        self._watch_idleness()
        task = self._loop.create_task(self._serve(call))
        self._tasks[stream] = task
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _take_data(self, event: h2.events.DataReceived) -> None:
        stream, data = event.stream_id or 0, event.data or b""
        size = event.flow_controlled_length or 0
        call = self._calls.get(stream)
        if call is None or not call.feed(data):
            self._flow.ignore(size)
            return
        self._flow.arrive(stream, len(data), size - len(data))

    @override
    def charge(self, size: int) -> None:
        if size > 0:
            self._memory.take(self.client.key, size)
        else:
            self._memory.give_back(self.client.key, -size)

    @override
    def widen(self, stream: int, size: int) -> None:
        if size > STREAM_WINDOW:
            self._flow.widen(stream, size - STREAM_WINDOW)
            self._flush_soon()

    @override
    def take(self, stream: int, size: int) -> None:
        self._flow.take(stream, size)
        self._flush_soon()

    @override
    def forget(self, stream: int, size: int) -> None:
        self._flow.forget(stream, size)

    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _watch_idleness(self) -> None:
        """End the connection when it has had no call for too long."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._calls or not self._is_open():
            return
        self._unused_since = self._loop.time()
        if self._limits.idle_timeout is not None:
            self._idle = self._loop.call_later(self._limits.idle_timeout, self.drain)

    # What a call does.

    async def _serve(self, call: Http2Call) -> None:
        try:
            status = await self._handle(call)
            self._send_trailers(call.stream, status, begun=call.headers_sent)
        except asyncio.CancelledError:
            if self._is_open() and not self._draining:
                return  # the client has cancelled
            raise
        finally:
            self._calls.pop(call.stream, None)
            self._tasks.pop(call.stream, None)
            call.close()
            self._open_calls.give_back(self.client.key, 1)
            self._watch_idleness()
            if self._limits.one_call:
                self.drain()
            elif self._draining and not self._calls:
                self._close()

    async def _handle(self, call: Http2Call) -> Status:
        timeout = asyncio.timeout_at(call.deadline)
        try:
            async with timeout:
                return await self._handler(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            if timeout.expired():
                return DEADLINE_EXCEEDED
            return Status.of(to_rpc_error(error, call.method, self._log))

    @override
    def send_headers(self, stream: int, headers: Headers) -> None:
        if self._can_send(stream):
            self._h2.send_headers(stream, REPLY_HEADERS + headers)
            self._flush_soon()

    @override
    async def send_data(self, call: Http2Call, data: bytes) -> None:
        view = memoryview(data)
        while view:
            # All calls wait for the same event, and the first ones may fill the transport again.
            while not self._writable.is_set():
                await self._writable.wait()
            if not self._can_send(call.stream):
                raise asyncio.CancelledError
            window = self._h2.local_flow_control_window(call.stream)
            if window <= 0:
                self._flush()
                await call.wait_for_window()
                continue
            # A client may allow frames of 16 MiB, which exceed the transport's limits.
            size = min(window, self._h2.max_outbound_frame_size, FLUSH_SIZE, len(view))
            self._h2.send_data(call.stream, view[:size].tobytes())
            view = view[size:]
            self._unsent += size
            if self._unsent >= FLUSH_SIZE:
                self._flush()
        self._flush_soon()

    def _send_trailers(self, stream: int, status: Status, *, begun: bool) -> None:
        if not self._can_send(stream):
            return
        headers = make_short_trailers(status)
        if not begun:
            headers = REPLY_HEADERS + headers
        self._h2.send_headers(stream, headers, end_stream=True)
        self._end_stream(stream)

    def _end_stream(self, stream: int) -> None:
        """The reply is complete: the client need not send the rest of its request."""
        known = self._h2.streams.get(stream)
        if known is not None and not known.closed:
            self._h2.reset_stream(stream, ErrorCodes.NO_ERROR)
        self._flush_soon()

    def _can_send(self, stream: int) -> bool:
        known = self._h2.streams.get(stream)
        return self._is_open() and known is not None and not known.closed

    # The connection's own end.

    def drain(self) -> None:
        """Take no new calls, and close when the last one has ended."""
        if self._draining or self._client is None or not self._is_open():
            if not self._calls:
                self._close()
            return
        self._draining = True
        # Not h2's own GOAWAY: after that it sends nothing any more.
        frame = hyperframe.frame.GoAwayFrame(0, last_stream_id=self._h2.highest_inbound_stream_id)
        self._flush()
        if self._transport is not None:
            self._transport.write(frame.serialize())
        if not self._calls:
            self._close()

    def abort(self) -> None:
        """End the connection and its calls now."""
        for task in self._running:
            task.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def end(self) -> None:
        """End the connection and wait until its transport is closed."""
        self.abort()
        if self._was_made:
            await self.closed.wait()

    def _close(self) -> None:
        self._flush()
        # Closing asyncio's TLS a second time would keep it from being aborted.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def _refuse(self, reason: str) -> None:
        self._refusals.note(self._address(), reason)
        for task in self._running:
            task.cancel()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def _address(self) -> str:
        if self._client is not None:
            return self._client.peer.address
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return format_address(name) if name else "unknown"

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._unsent = 0
        if self._transport is None or self._transport.is_closing():
            return
        data = self._h2.data_to_send()
        if data:
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > SEND_LIMIT:
                self._refusals.note(self._address(), "it sends requests without reading the answers")
                self.abort()


def _check_request(headers: dict[str, str]) -> list[tuple[str, str]] | None:
    """The refusal of a request that is not gRPC."""
    if headers.get(":method") != "POST":
        return [(":status", "405"), ("allow", "POST")]
    content_type = headers.get("content-type", "")
    base, rest = content_type[:16], content_type[16:17]
    if base != "application/grpc" or rest not in {"", "+", ";"}:
        text = f"invalid gRPC request content-type {content_type[:64]!r}"
        return [(":status", "415"), *make_short_trailers(Status(code=Code.INTERNAL, message=text))]
    return None
