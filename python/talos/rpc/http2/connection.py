"""HTTP/2 as gRPC uses it: one connection, either end, between daemons and on ports of the network.

It is lean on purpose: a call costs a tenth of what it does with a general library, which keeps a state
machine for every stream and compresses headers. It accepts nothing that RFC 9113 forbids, and holds no
more than its bounds allow.

Everything here runs on asyncio's loop. Streams are used from asyncio or from trio, which share a thread.
"""

import asyncio
from typing import cast, override

from talos.rpc.http2.abandoned import AbandonedStreams
from talos.rpc.http2.frame_reader import FrameReader
from talos.rpc.http2.frames import (
    ACK,
    DEFAULT_WINDOW,
    END_STREAM,
    MAX_WINDOW,
    Bounds,
    ErrorCode,
    FlowControlError,
    FrameSizeError,
    Kind,
    ProtocolError,
    Setting,
    StreamClosedError,
    make_frame,
    make_settings,
    make_window_update,
    parse_settings,
    strip_padding,
)
from talos.rpc.http2.headers import HeaderDecoder
from talos.rpc.http2.receiver import Receiver
from talos.rpc.http2.rules import count_body, parse_length
from talos.rpc.protocol import Headers

MAX_SENT_FRAME = 64 * 1024
"""Bytes of the largest frame that is sent, though a peer may allow 16 MiB."""

_PING_SIZE, _GOAWAY_SIZE = 8, 8

MAX_REASON = 256
"""Bytes of the reason that a peer gets for the end of its connection."""


class Connection(FrameReader):
    """What both ends have in common. Subclasses begin streams, which are numbered up to ``last``."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self.streams: dict[int, Receiver] = {}
        self.last = 0
        self.unread = 0
        """Bytes of all streams that were received and not read."""
        self.send_window = DEFAULT_WINDOW
        self.stream_window = DEFAULT_WINDOW
        self.max_streams = MAX_WINDOW
        self.paused = False
        self._receive_window = bounds.connection_window
        self._decoder = HeaderDecoder(bounds.headers)
        self._has_gaps = False
        """Whether the peer has left out numbers of streams, which it may not use later."""
        self._abandoned = AbandonedStreams()
        self._is_waking = False

    # What subclasses do.

    def begin_stream(self, number: int, headers: Headers, *, ended: bool) -> Receiver | None:
        """The peer begins a stream above ``last``, all of which it may have sent; None when it is refused."""
        raise NotImplementedError

    def take_late_headers(self, headers: Headers, *, ended: bool) -> None:
        """Check headers of a stream that was ended here, which are ignored; ProtocolError."""

    def note_settings(self) -> None:
        """The peer has sent its settings."""

    def retire(self, last: int) -> None:
        """The peer takes no streams above a number."""

    # What asyncio calls, besides what the base classes have.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.preface + make_settings(self.bounds, is_client=not self.peer_preface))

    def pause_writing(self) -> None:
        """The peer does not read."""
        self.paused = True

    def resume_writing(self) -> None:
        """The peer reads again."""
        self.paused = False
        self._wake_writers()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The connection has ended, and with it every stream."""
        self.closed = True
        self.transport = None  # asyncio's TLS refers to this object and the other way round
        for stream in tuple(self.streams.values()):
            stream.mark_lost("the connection was closed")
        self.streams.clear()

    # What the base class calls for each frame.

    @override
    def take_reset(self, number: int, code: int) -> None:
        if (stream := self._find(number)) is not None:
            del self.streams[number]
            stream.reset(code)
        else:
            self._abandoned.remove(number)

    @override
    def take_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ProtocolError("a frame of the connection on a stream")
        if kind == Kind.SETTINGS:
            if not flags & ACK:
                self._take_settings(payload)
            elif payload:
                raise FrameSizeError("an acknowledgement with settings")
            else:
                self._decoder.drop_table()
        elif kind == Kind.PING:
            if len(payload) != _PING_SIZE:
                raise FrameSizeError("a ping of a wrong size")
            if not flags & ACK:
                self.write(make_frame(Kind.PING, ACK, 0, payload))
        elif len(payload) < _GOAWAY_SIZE:
            raise FrameSizeError("a goaway of a wrong size")
        else:
            self.retire(int.from_bytes(payload[:4]) & MAX_WINDOW)

    def _find(self, number: int) -> Receiver | None:
        """The stream of a frame; None when it has ended here, which its peer may not have seen yet."""
        stream = self.streams.get(number)
        if stream is None:
            self._check_begun(number)
        return stream

    def abandon(self, number: int, body_left: int | None = None) -> None:
        """End a stream here whose peer has not ended it: what it sends until it notices is ignored."""
        self._abandoned.add(number, body_left)

    def _check_begun(self, number: int) -> None:
        if not (0 < number <= self.last and number & 1):
            raise ProtocolError(f"a frame of stream {number}, which has not begun")

    def _take_late_data(self, number: int, size: int, *, ended: bool) -> None:
        self._check_begun(number)
        self._abandoned.take_data(number, size, ended=ended)

    def _take_late_headers(self, number: int, headers: Headers, *, ended: bool) -> None:
        if self._has_gaps and number not in self._abandoned and number & 1:
            raise ProtocolError(f"stream {number} begins after a later one")
        self._check_begun(number)
        self._abandoned.check(number)
        self.take_late_headers(headers, ended=ended)
        if ended:
            self._abandoned.remove(number)

    @override
    def take_data(self, flags: int, number: int, payload: memoryview) -> None:
        size = len(payload)
        self._receive_window -= size
        if self._receive_window < 0:
            raise FlowControlError("more data than the connection's window allows")
        data, ended = strip_padding(flags, payload), bool(flags & END_STREAM)
        stream = self.streams.get(number)
        if stream is None:
            self._take_late_data(number, len(data), ended=ended)
        elif stream.received_all:
            raise StreamClosedError("data after the end of its stream")
        else:
            if stream.body_left is not None:
                stream.body_left = count_body(stream.body_left, len(data), ended=ended)
            stream.feed(data, size)
            if ended:
                stream.feed_end()
        self.grant()

    def grant(self) -> None:
        """Open the connection's window again, unless too much is unread.

        It opens before streams are read, so that one slow reader does not stall the others.
        """
        owed = self.bounds.connection_window - self._receive_window
        if owed >= self.bounds.connection_window // 2 and self.unread <= self.bounds.unread:
            self._receive_window += owed
            self.write(make_window_update(0, owed))

    @override
    def take_header_block(self, number: int, block: bytes, *, ended: bool) -> None:
        headers = self._decoder.decode(block)
        stream = self.streams.get(number)
        if stream is not None:
            if stream.received_all:
                raise StreamClosedError("headers after the end of their stream")
            stream.take_headers(headers, ended=ended)
        elif number <= self.last:
            self._take_late_headers(number, headers, ended=ended)
        else:
            self._has_gaps = self._has_gaps or number > self.last + 2
            stream = self.begin_stream(number, headers, ended=ended)
            if stream is None and not ended:
                self.abandon(number, parse_length(dict(headers)))
        if stream is not None and ended:
            if stream.body_left:
                raise ProtocolError("a body that was announced is missing")
            stream.feed_end()

    def _take_settings(self, payload: bytes) -> None:
        # Of a setting that is repeated the last value is what counts: each change goes to every stream.
        for name, value in dict(parse_settings(payload)).items():
            if name == Setting.INITIAL_WINDOW_SIZE:
                change, self.stream_window = value - self.stream_window, value
                for stream in self.streams.values():
                    stream.send_window = _widen(stream.send_window, change)
            elif name == Setting.MAX_FRAME_SIZE:
                self.max_frame = min(value, MAX_SENT_FRAME)
            elif name == Setting.MAX_CONCURRENT_STREAMS:
                self.max_streams = value
            elif name == Setting.ENABLE_PUSH and value and not self.peer_preface:
                raise ProtocolError("a server that enables pushes")
        self.write(make_frame(Kind.SETTINGS, ACK, 0, b""))
        self.note_settings()
        self._wake_writers()

    @override
    def open_window(self, number: int, size: int) -> None:
        if not size:
            raise ProtocolError("a window is opened by nothing")
        if number == 0:
            self.send_window = _widen(self.send_window, size)
            self._wake_writers()
        elif (stream := self._find(number)) is not None:
            stream.send_window = _widen(stream.send_window, size)
            stream.wake_writer()

    def _wake_writers(self) -> None:
        """Let all senders check the windows, once in a round of the loop however often these are opened."""
        if not self._is_waking and self.streams:
            self._is_waking = True
            self.loop.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._is_waking = False
        for stream in tuple(self.streams.values()):
            stream.wake_writer()

    def refuse_more(self) -> None:
        """Announce (GOAWAY) that no further streams are accepted."""
        payload = self.last.to_bytes(4) + ErrorCode.NO_ERROR.to_bytes(4)
        self.write(make_frame(Kind.GOAWAY, 0, 0, payload))

    @override
    def fail(self, reason: str, code: int) -> None:
        payload = self.last.to_bytes(4) + code.to_bytes(4) + reason.encode()[:MAX_REASON]
        self.write(make_frame(Kind.GOAWAY, 0, 0, payload))
        self.close()


def _widen(window: int, size: int) -> int:
    window += size
    if window > MAX_WINDOW:
        raise FlowControlError(f"a window of {window} bytes")
    return window
