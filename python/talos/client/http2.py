"""The client's side of an HTTP/2 connection on asyncio, by h2: streams of bytes between headers and trailers.

A stream's window opens as its reader takes what came, so a slow reader slows its node down and nothing
piles up here.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

WINDOW = 8 * 1024 * 1024
"""Bytes that a stream, and a connection, may have on the way to its reader."""

type Headers = Sequence[tuple[str, str]]


class StreamError(Exception):
    """The stream ended before its end: reset by the node with a code, or cut off with the connection."""

    def __init__(self, reset: int | None = None) -> None:
        super().__init__(
            "the connection was lost" if reset is None else f"the node reset the stream: {reset}"
        )
        self.reset = reset


class Http2Connection(asyncio.Protocol):
    """One connection. ``lost`` is why it broke: a server's TLS alert comes only after the handshake."""

    def __init__(self) -> None:
        self.lost: BaseException | None = None
        self.is_answered = False
        self.is_usable = True
        self.closed = asyncio.Event()
        self.transport: asyncio.Transport | None = None
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._streams: dict[int, Http2Stream] = {}
        self._changed = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._handlers: dict[type[Event], Callable[[Event], None]] = {
            ResponseReceived: self._on_headers,
            TrailersReceived: self._on_headers,
            DataReceived: self._on_data,
            StreamEnded: self._on_end,
            StreamReset: self._on_reset,
            ConnectionTerminated: self._on_goaway,
            WindowUpdated: self._on_window,
            RemoteSettingsChanged: self._on_window,
        }

    def open_stream(self, headers: Headers) -> "Http2Stream":
        """A new stream; its headers leave with the first flush."""
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, headers)
        stream = self._streams[number] = Http2Stream(self, number)
        return stream

    def forget(self, number: int) -> None:
        """Drop a stream."""
        self._streams.pop(number, None)

    def flush(self) -> None:
        """Hand to the transport what waits to be sent."""
        if self.transport and (data := self.h2.data_to_send()):
            self.transport.write(data)

    async def wait_to_send(self, number: int) -> int:
        """Wait until a stream may send; how many bytes."""
        while True:
            await self._may_write.wait()
            if not self.is_usable and self.lost is not None:
                raise StreamError
            window = self.h2.local_flow_control_window(number)
            if window > 0:
                return min(window, self.h2.max_outbound_frame_size)
            self._changed.clear()
            self.flush()
            await self._changed.wait()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin HTTP/2."""
        self.transport = cast("asyncio.Transport", transport)
        self.h2.local_settings = Settings(
            client=True,
            initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: WINDOW},
        )
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(WINDOW - self.h2.inbound_flow_control_window)

    def data_received(self, data: bytes) -> None:
        """Take in what the node sent."""
        self.is_answered = True
        try:
            events = self.h2.receive_data(data)
        except ProtocolError as error:
            self.flush()
            self.lost = self.lost or error
            if self.transport:
                self.transport.close()
            return
        for event in events:
            if handler := self._handlers.get(type(event)):
                handler(event)
        self.flush()

    def pause_writing(self) -> None:
        """The transport holds enough."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """The transport has sent most of it."""
        self._may_write.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cut off every stream."""
        self.lost = self.lost or exc or ConnectionResetError("closed by the node")
        self.is_usable = False
        for stream in list(self._streams.values()):
            stream.fail(StreamError())
        self._may_write.set()
        self._changed.set()
        self.closed.set()

    # What h2 found.

    def _on_headers(self, event: Event) -> None:
        assert isinstance(event, ResponseReceived | TrailersReceived)
        if stream := self._streams.get(event.stream_id or 0):
            pairs = cast("Sequence[tuple[str, str]]", event.headers)
            stream.headers.update(pairs)
            stream.changed.set()

    def _on_data(self, event: Event) -> None:
        assert isinstance(event, DataReceived)
        assert event.stream_id is not None
        size = event.flow_controlled_length or 0
        if stream := self._streams.get(event.stream_id):
            stream.chunks.append((event.data or b"", size))
            stream.changed.set()
        else:
            self.acknowledge(event.stream_id, size)

    def acknowledge(self, number: int, size: int) -> None:
        """Data was taken, or is not wanted: the node may send as much again."""
        if size and self.is_usable:
            self.h2.acknowledge_received_data(size, number)

    def _on_end(self, event: Event) -> None:
        assert isinstance(event, StreamEnded)
        if stream := self._streams.get(event.stream_id or 0):
            stream.is_ended = True
            stream.changed.set()
            self._changed.set()

    def _on_reset(self, event: Event) -> None:
        assert isinstance(event, StreamReset)
        if stream := self._streams.get(event.stream_id or 0):
            stream.fail(StreamError(int(event.error_code or 0)))
        self._changed.set()

    def _on_goaway(self, event: Event) -> None:
        assert isinstance(event, ConnectionTerminated)
        # h2 takes no further stream on this connection; those that the node still serves go on.
        self.is_usable = False
        last = event.last_stream_id or 0
        for number, stream in list(self._streams.items()):
            if number > last or event.error_code:
                stream.fail(StreamError())

    def _on_window(self, event: Event) -> None:
        del event
        self._changed.set()


class Http2Stream:
    """One stream: what is sent, and what came and was not taken yet."""

    def __init__(self, connection: Http2Connection, number: int) -> None:
        self.headers: dict[str, str] = {}
        """Of the beginning and of the end."""
        self.chunks: deque[tuple[bytes, int]] = deque()
        """Data with its size in the window."""
        self.is_ended = False
        self.changed = asyncio.Event()
        self._connection = connection
        self._number = number
        self._error: StreamError | None = None
        self._is_sent = False

    async def send(self, data: bytes, *, end: bool) -> None:
        """Send data as fast as the node takes it; a node that has answered already takes no more."""
        view = memoryview(data)
        while view or (end and not self._is_sent):
            if self._error:
                raise self._error
            try:
                size = await self._connection.wait_to_send(self._number) if view else 0
                part, view = view[:size], view[size:]
                self._is_sent = end and not view
                self._connection.h2.send_data(self._number, bytes(part), end_stream=self._is_sent)
            except ProtocolError:
                if self.is_ended:
                    return
                raise
        self._connection.flush()

    async def receive(self) -> bytes:
        """The next data; nothing at the end."""
        while not self.chunks:
            if self._error:
                raise self._error
            if self.is_ended:
                return b""
            self.changed.clear()
            await self.changed.wait()
        data, size = self.chunks.popleft()
        self._connection.acknowledge(self._number, size)
        self._connection.flush()
        return data

    def fail(self, error: StreamError) -> None:
        """Nothing more will come."""
        if not self.is_ended:
            self._error = self._error or error
        self.changed.set()

    def close(self) -> None:
        """Drop the stream; one that has not ended is cancelled."""
        self._connection.forget(self._number)
        unread = sum(size for _, size in self.chunks)
        self.chunks.clear()
        connection = self._connection
        if connection.lost is not None:
            return
        if not (self.is_ended and self._is_sent) and not self._error:
            # h2 refuses when the stream has ended already.
            with contextlib.suppress(ProtocolError):
                connection.h2.reset_stream(self._number, ErrorCodes.CANCEL)
        connection.acknowledge(self._number, unread)
        connection.flush()
