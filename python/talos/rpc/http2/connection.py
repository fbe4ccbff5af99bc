"""HTTP/2 as gRPC uses it: one connection, either end, between daemons and on ports of the network.

It is lean on purpose: a call costs a tenth of what it does with a general library, which keeps a state
machine for every stream and compresses headers. It accepts nothing that RFC 9113 forbids, and holds no
more than its bounds allow.

Everything here runs on asyncio's loop. Streams are used from asyncio or from trio, which share a thread.
"""

import asyncio
from typing import ClassVar, Protocol, cast

from talos.api.rpc import RpcError
from talos.rpc.http2.frames import (
    ACK,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEAD,
    MAX_WINDOW,
    MIN_FRAME,
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
from talos.rpc.http2.headers import NO_TABLE, HeaderDecoder, encode_headers
from talos.rpc.http2.rules import count_body, parse_length
from talos.rpc.protocol import Headers
from talos.rpc.receive_buffer import ReceiveBuffer

MAX_SENT_FRAME = 64 * 1024
"""Bytes of the largest frame that is sent, though a peer may allow 16 MiB."""
_FLUSH_SIZE = 64 * 1024
"""Bytes that are sent at once instead of at the end of the loop's round."""

_received = ReceiveBuffer()

_PING_SIZE, _GOAWAY_SIZE = 8, 8

MAX_REASON = 256
"""Bytes of the reason that a peer gets for the end of its connection."""

MAX_ABANDONED = 256
"""Streams ended here before their peer had, whose late frames are ignored; so are those of earlier ones."""


class Receiver(Protocol):
    """What a connection needs of its streams."""

    send_window: int
    received_all: bool
    body_left: int | None
    """Bytes that are to come of a body whose length was announced."""

    def take_headers(self, headers: Headers, *, ended: bool) -> None:
        """Take further headers: the reply's, or trailers. ProtocolError when they are malformed."""
        ...

    def feed(self, data: memoryview, size: int) -> None:
        """Take data, which counts as ``size`` bytes of the window."""
        ...

    def feed_end(self) -> None:
        """Note that the peer has sent everything."""
        ...

    def reset(self, code: int) -> None:
        """End the stream: the peer has reset it."""
        ...

    def mark_lost(self, reason: str) -> None:
        """End the stream: its connection is closed."""
        ...

    def end_with(self, failure: RpcError) -> None:
        """End the stream in both directions."""
        ...

    def wake_writer(self) -> None:
        """Let a waiting sender check the windows again."""
        ...


class Connection(asyncio.BufferedProtocol):
    """What both ends have in common. Subclasses begin streams, which are numbered up to ``last``."""

    greeting: ClassVar[bytes] = b""
    expected: ClassVar[bytes] = b""

    def __init__(self, bounds: Bounds) -> None:
        self.loop = asyncio.get_running_loop()
        self.bounds = bounds
        self.streams: dict[int, Receiver] = {}
        self.last = 0
        self.unread = 0
        self.send_window = DEFAULT_WINDOW
        self.stream_window = DEFAULT_WINDOW
        self.max_frame = MIN_FRAME
        self.max_streams = MAX_WINDOW
        self.paused = False
        self.closed = False
        self.transport: asyncio.Transport | None = None
        self._receive_window = bounds.connection_window
        self._decoder = HeaderDecoder(bounds.headers)
        self._encoded_before = False
        self._rest = b""
        self._greeted = False
        self._has_gaps = False
        self._abandoned: dict[int, int | None] = {}
        self._forgotten = 0
        self._is_waking = False
        self._block: tuple[int, int, bytes] | None = None
        self._unsent: list[bytes | memoryview] = []
        self._unsent_size = 0

    # What subclasses do.

    def begin_stream(self, number: int, headers: Headers, *, ended: bool) -> Receiver | None:
        """The peer begins a stream above ``last``, all of which it may have sent; None when it is refused."""
        raise NotImplementedError

    def measure(self, kind: int, flags: int, number: int, size: int) -> None:
        """Count a frame; ProtocolError when there are too many of its kind."""

    def take_late_headers(self, headers: Headers, *, ended: bool) -> None:
        """Look at headers of a stream that was ended here, which are ignored."""

    def greet(self) -> None:
        """The peer has sent its settings."""

    def retire(self, last: int) -> None:
        """The peer takes no streams above a number."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.greeting + make_settings(self.bounds, is_client=not self.expected))

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
        if not self._greeted:
            if not self._check_greeting(data):
                return 0
            self._greeted, position = True, len(self.expected)
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

    def _check_greeting(self, data: memoryview) -> bool:
        """Whether the preface has arrived and settings begin; ProtocolError for anything else (3.4)."""
        size = len(self.expected)
        if bytes(data[:size]) != self.expected[: len(data)]:
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
                pass  # what is unknown is to be ignored

    def _take_reset(self, number: int, code: int) -> None:
        if (stream := self._find(number)) is not None:
            del self.streams[number]
            stream.reset(code)
        else:
            self._abandoned.pop(number, None)

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
        if stream is None and not (0 < number <= self.last and number & 1):
            raise ProtocolError(f"a frame of stream {number}, which has not begun")
        return stream

    def abandon(self, number: int, body_left: int | None = None) -> None:
        """End a stream here whose peer has not ended it: what it sends until it notices is ignored."""
        self._abandoned[number] = body_left
        if len(self._abandoned) > MAX_ABANDONED:
            oldest = next(iter(self._abandoned))
            del self._abandoned[oldest]
            self._forgotten = max(self._forgotten, oldest)

    def _check_abandoned(self, number: int) -> None:
        """Refuse frames of a stream that is not open, unless it was ended here."""
        if not (0 < number <= self.last and number & 1):
            raise ProtocolError(f"a frame of stream {number}, which has not begun")
        if number not in self._abandoned and number > self._forgotten:
            raise StreamClosedError(f"a frame of stream {number}, which its sender has ended")

    def _take_late_data(self, number: int, size: int, *, ended: bool) -> None:
        self._check_abandoned(number)
        if (left := self._abandoned.get(number)) is not None:
            self._abandoned[number] = count_body(left, size, ended=ended)
        if ended:
            self._abandoned.pop(number, None)

    def _take_late_headers(self, number: int, headers: Headers, *, ended: bool) -> None:
        if self._has_gaps and number not in self._abandoned and number & 1:
            raise ProtocolError(f"stream {number} begins after a later one")
        self._check_abandoned(number)
        self.take_late_headers(headers, ended=ended)
        if ended:
            self._abandoned.pop(number, None)

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
            elif name == Setting.ENABLE_PUSH and value and not self.expected:
                raise ProtocolError("a server that enables pushes")
        self.write(make_frame(Kind.SETTINGS, ACK, 0, b""))
        self.greet()
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

    # Frames out.

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes together with others of the same round of the loop."""
        if not self._unsent:
            self.loop.call_soon(self.flush)
        self._unsent.append(data)
        self._unsent_size += len(data)
        if self._unsent_size > _FLUSH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Send what was collected."""
        if self._unsent:
            data, self._unsent, self._unsent_size = b"".join(self._unsent), [], 0
            if self.transport is not None and not self.transport.is_closing():
                self.transport.write(data)
                if self.transport.get_write_buffer_size() > self.bounds.unsent:
                    self.overflow()

    def overflow(self) -> None:
        """End a connection whose peer does not read what it makes this side answer."""
        self.abort()

    def write_headers(self, number: int, headers: Headers, flags: int = 0) -> None:
        """Send headers, in several frames if they are large."""
        block = encode_headers(headers)
        if not self._encoded_before:
            block, self._encoded_before = NO_TABLE + block, True
        if len(block) <= self.max_frame:
            self.write(make_frame(Kind.HEADERS, flags | END_HEADERS, number, block))
            return
        parts = [block[start : start + self.max_frame] for start in range(0, len(block), self.max_frame)]
        self.write(make_frame(Kind.HEADERS, flags, number, parts[0]))
        for part in parts[1:-1]:
            self.write(make_frame(Kind.CONTINUATION, 0, number, part))
        self.write(make_frame(Kind.CONTINUATION, END_HEADERS, number, parts[-1]))

    def refuse_more(self) -> None:
        """Announce (GOAWAY) that no further streams are accepted."""
        payload = self.last.to_bytes(4) + ErrorCode.NO_ERROR.to_bytes(4)
        self.write(make_frame(Kind.GOAWAY, 0, 0, payload))

    def fail(self, reason: str, code: int) -> None:
        """End a connection because of the peer's protocol error."""
        payload = self.last.to_bytes(4) + code.to_bytes(4) + reason.encode()[:MAX_REASON]
        self.write(make_frame(Kind.GOAWAY, 0, 0, payload))
        self.close()

    def close(self) -> None:
        """End the connection once what waits is sent."""
        self.flush()
        self.closed = True
        # Closing asyncio's TLS a second time would keep it from being aborted.
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def abort(self) -> None:
        """End the connection now, whether or not the peer reads."""
        self.closed = True
        if self.transport is not None:
            self.transport.abort()


def _widen(window: int, size: int) -> int:
    window += size
    if window > MAX_WINDOW:
        raise FlowControlError(f"a window of {window} bytes")
    return window
