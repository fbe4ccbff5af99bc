"""HTTP/2 as gRPC uses it: one connection, either end, between daemons and on ports of the network.

It is lean on purpose: a call costs a tenth of what it does with a general library, which keeps a state
machine for every stream and compresses headers. It accepts nothing that RFC 9113 forbids, and holds no
more than its bounds allow.

Everything here runs on asyncio's loop. Streams are used from asyncio or from trio, which share a thread.
"""

import asyncio
from typing import ClassVar, cast

from talos.rpc.http2.abandoned import AbandonedStreams
from talos.rpc.http2.frames import (
    ACK,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEAD,
    MAX_WINDOW,
    Bounds,
    ErrorCode,
    FlowControlError,
    FrameSizeError,
    Kind,
    ProtocolError,
    Setting,
    StreamClosedError,
    check_priority,
    make_frame,
    make_settings,
    make_window_update,
    parse_number,
    parse_settings,
    strip_padding,
    strip_priority,
)
from talos.rpc.http2.headers import HeaderDecoder
from talos.rpc.http2.receiver import Receiver
from talos.rpc.http2.rules import count_body, parse_length
from talos.rpc.http2.sender import Sender
from talos.rpc.protocol import Headers
from talos.rpc.receive_buffer import ReceiveBuffer

MAX_SENT_FRAME = 64 * 1024
"""Bytes of the largest frame that is sent, though a peer may allow 16 MiB."""
_received = ReceiveBuffer()

_PING_SIZE, _GOAWAY_SIZE = 8, 8

MAX_REASON = 256
"""Bytes of the reason that a peer gets for the end of its connection."""


class Connection(Sender):
    """What both ends have in common. Subclasses begin streams, which are numbered up to ``last``."""

    preface: ClassVar[bytes] = b""
    """What this end sends first: empty for a server."""
    peer_preface: ClassVar[bytes] = b""
    """What the peer has to send first: empty for a client."""

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
        self._rest = b""
        self._has_preface = False
        self._has_gaps = False
        """Whether the peer has left out numbers of streams, which it may not use later."""
        self._abandoned = AbandonedStreams()
        self._is_waking = False
        self._block: tuple[int, int, bytes] | None = None
        """Headers that are to be continued: the stream, the flags of the first frame, what has arrived."""

    # What subclasses do.

    def begin_stream(self, number: int, headers: Headers, *, ended: bool) -> Receiver | None:
        """The peer begins a stream above ``last``, all of which it may have sent; None when it is refused."""
        raise NotImplementedError

    def measure(self, kind: int, flags: int, number: int, size: int) -> None:
        """Count a frame; ProtocolError when there are too many of its kind."""

    def take_late_headers(self, headers: Headers, *, ended: bool) -> None:
        """Check headers of a stream that was ended here, which are ignored; ProtocolError."""

    def note_settings(self) -> None:
        """The peer has sent its settings."""

    def retire(self, last: int) -> None:
        """The peer takes no streams above a number."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.preface + make_settings(self.bounds, is_client=not self.peer_preface))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Where received data is written."""
        return _received.view

    def buffer_updated(self, nbytes: int) -> None:
        """Process received data."""
        self.data_received(_received.view[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Process received data, which need not be valid any longer than this takes."""
        if self.closed:
            return
        view = memoryview(self._rest + data if self._rest else data)
        try:
            self._rest = bytes(view[self._take_all(view) :])
        except ProtocolError as error:
            self._rest = b""
            self.fail(f"HTTP/2 protocol error: {error}", error.code)

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

    # Frames in.

    def _take_all(self, data: memoryview) -> int:
        """Take all complete frames; returns where the incomplete one begins."""
        position, size = 0, len(data)
        if not self._has_preface:
            if not self._check_preface(data):
                return 0
            self._has_preface, position = True, len(self.peer_preface)
        while size - position >= HEAD.size:
            high, low, kind, flags, number = HEAD.unpack_from(data, position)
            length = high << 8 | low
            self._check_size(kind, length)
            end = position + HEAD.size + length
            if end > size:
                break
            number &= MAX_WINDOW
            self.measure(kind, flags, number, length)
            payload = data[position + HEAD.size : end]
            if kind == Kind.DATA and self._block is None:
                self._take_data(flags, number, payload)
            else:
                self._take(kind, flags, number, bytes(payload))
            if self.closed:
                return size
            position = end
        return position

    def _check_preface(self, data: memoryview) -> bool:
        """Whether the preface has arrived and settings begin; ProtocolError for anything else (3.4)."""
        size = len(self.peer_preface)
        if bytes(data[:size]) != self.peer_preface[: len(data)]:
            raise ProtocolError("no preface")
        if len(data) < size + HEAD.size:
            return False
        _, _, kind, flags, _ = HEAD.unpack_from(data, size)
        if kind != Kind.SETTINGS or flags & ACK:
            raise ProtocolError("no settings after the preface")
        return True

    def _check_size(self, kind: int, length: int) -> None:
        """Refuse a frame by the length that it announces, before it has arrived."""
        if length > self.bounds.frame:
            raise FrameSizeError(f"a frame of {length} bytes, at most {self.bounds.frame} are allowed")
        if kind in {Kind.HEADERS, Kind.CONTINUATION}:
            before = len(self._block[2]) if self._block is not None else 0
            if before + length > self.bounds.headers:
                raise ProtocolError(f"headers of more than {self.bounds.headers} bytes")

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and kind != Kind.CONTINUATION:
            raise ProtocolError("headers are interrupted")
        match kind:
            case Kind.HEADERS:
                self._take_headers(flags, number, flags, strip_priority(flags, number, payload))
            case Kind.CONTINUATION:
                self._take_continuation(flags, number, payload)
            case Kind.WINDOW_UPDATE:
                self._open_window(number, parse_number(payload) & MAX_WINDOW)
            case Kind.RST_STREAM:
                self._take_reset(number, parse_number(payload))
            case Kind.PUSH_PROMISE:
                raise ProtocolError("a push")
            case Kind.SETTINGS | Kind.PING | Kind.GOAWAY:
                self._take_control(kind, flags, number, payload)
            case Kind.PRIORITY:
                check_priority(number, payload)  # it means nothing any more
            case _:
                pass  # RFC 9113, 4.1: frames of unknown types are ignored

    def _take_reset(self, number: int, code: int) -> None:
        if (stream := self._find(number)) is not None:
            del self.streams[number]
            stream.reset(code)
        else:
            self._abandoned.remove(number)

    def _take_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """A frame of the whole connection."""
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

    def _take_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ProtocolError("a continuation of nothing")
        _, first, before = self._block
        self._take_headers(first | flags & END_HEADERS, number, first, before + payload)

    def _take_data(self, flags: int, number: int, payload: memoryview) -> None:
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

    def _take_headers(self, flags: int, number: int, first: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            self._block = (number, first, block)
            return
        self._block = None
        headers, ended = self._decoder.decode(block), bool(first & END_STREAM)
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

    def _open_window(self, number: int, size: int) -> None:
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

    def fail(self, reason: str, code: int) -> None:
        """End a connection because of the peer's protocol error."""
        payload = self.last.to_bytes(4) + code.to_bytes(4) + reason.encode()[:MAX_REASON]
        self.write(make_frame(Kind.GOAWAY, 0, 0, payload))
        self.close()


def _widen(window: int, size: int) -> int:
    window += size
    if window > MAX_WINDOW:
        raise FlowControlError(f"a window of {window} bytes")
    return window
