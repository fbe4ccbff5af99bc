"""HTTP/2 as gRPC uses it: one connection, either end, between daemons and on ports of the network.

It is lean on purpose: a call costs a tenth of what it does with a general library, which keeps a state
machine for every stream and compresses headers. It accepts nothing that RFC 9113 forbids, and holds no
more than its bounds allow.

Everything here runs on asyncio's loop. Streams are used from asyncio or from trio, which share a thread.
"""

import asyncio
from typing import ClassVar, Protocol, cast

import hpack

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
    make_frame,
    make_settings,
    make_window_update,
    parse_number,
    parse_settings,
    strip_padding,
    strip_priority,
)
from talos.rpc.http2.headers import NO_TABLE, HeaderDecoder, encode_headers
from talos.rpc.protocol import Headers

MAX_SENT_FRAME = 64 * 1024
"""Bytes of the largest frame that is sent, though a peer may allow 16 MiB."""
_FLUSH_SIZE = 16 * 1024
"""Bytes that are sent at once instead of at the end of the loop's round."""

_PING_SIZE, _GOAWAY_SIZE = 8, 8


class Receiver(Protocol):
    """What a connection needs of its streams."""

    send_window: int
    received_all: bool

    def take_headers(self, headers: Headers, *, ended: bool) -> None:
        """Take further headers: the reply's, or trailers."""
        ...

    def feed(self, data: bytes, size: int) -> None:
        """Take data, which counts as ``size`` bytes of the window."""
        ...

    def feed_end(self) -> None:
        """Note that the peer has sent everything."""
        ...

    def reset(self, code: int) -> None:
        """End the stream: the peer has reset it."""
        ...

    def lose(self, reason: str) -> None:
        """End the stream: its connection is closed."""
        ...

    def end_with(self, failure: RpcError) -> None:
        """End the stream in both directions."""
        ...

    def wake_writer(self) -> None:
        """Let a waiting sender check the windows again."""
        ...


class Connection(asyncio.Protocol):
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
        self._greeted = not self.expected
        self._block: tuple[int, int, bytes] | None = None
        self._unsent: list[bytes] = []

    # What subclasses do.

    def begin_stream(self, number: int, headers: Headers) -> Receiver | None:
        """The peer sends headers of no open stream; None when there is nothing to receive."""
        raise NotImplementedError

    def measure(self, kind: int, flags: int, size: int) -> None:
        """Count a frame; ProtocolError when there are too many of its kind."""

    def greet(self) -> None:
        """The peer has sent its settings."""

    def retire(self, last: int) -> None:
        """The peer takes no streams above a number."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.greeting + make_settings(self.bounds))

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        if self.closed:
            return
        if self._rest:
            data = self._rest + data
        try:
            self._rest = data[self._take_all(data) :]
        except (ProtocolError, hpack.HPACKError, ValueError, IndexError) as error:
            # For some malformed input hpack raises plain errors, not its own.
            self._rest = b""
            code = error.code if isinstance(error, ProtocolError) else ErrorCode.PROTOCOL_ERROR
            self.fail(f"HTTP/2 protocol error: {error or type(error).__name__}", code)

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
            stream.lose("the connection was closed")
        self.streams.clear()

    # Frames in.

    def _take_all(self, data: bytes) -> int:
        """Take all complete frames; returns where the incomplete one begins."""
        position, size = 0, len(data)
        if not self._greeted:
            if not data.startswith(self.expected[:size]):
                raise ProtocolError("no preface")
            if size < len(self.expected):
                return 0
            self._greeted, position = True, len(self.expected)
        while size - position >= HEAD.size:
            high, low, kind, flags, number = HEAD.unpack_from(data, position)
            length = high << 8 | low
            self._check_size(kind, length)
            end = position + HEAD.size + length
            if end > size:
                break
            self.measure(kind, flags, length)
            self._take(kind, flags, number & MAX_WINDOW, data[position + HEAD.size : end])
            if self.closed:
                return size
            position = end
        return position

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
            case Kind.DATA:
                self._take_data(flags, number, payload)
            case Kind.HEADERS:
                self._take_headers(flags, number, flags, strip_priority(flags, payload))
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
            case _:
                pass  # a priority, which means nothing any more, or what is unknown and to be ignored

    def _take_reset(self, number: int, code: int) -> None:
        if (stream := self._find(number)) is not None:
            del self.streams[number]
            stream.reset(code)

    def _take_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """A frame of the whole connection."""
        if number:
            raise ProtocolError("a frame of the connection on a stream")
        if kind == Kind.SETTINGS:
            if not flags & ACK:
                self._take_settings(payload)
            elif payload:
                raise FrameSizeError("an acknowledgement with settings")
        elif kind == Kind.PING:
            if len(payload) != _PING_SIZE:
                raise FrameSizeError("a ping of a wrong size")
            if not flags & ACK:
                self.write(make_frame(Kind.PING, ACK, 0, payload))
        elif len(payload) < _GOAWAY_SIZE:
            raise FrameSizeError("a farewell of a wrong size")
        else:
            self.retire(int.from_bytes(payload[:4]) & MAX_WINDOW)

    def _find(self, number: int) -> Receiver | None:
        """The stream of a frame; None when it has ended here, which its peer may not know yet."""
        stream = self.streams.get(number)
        if stream is None and not (0 < number <= self.last and number & 1):
            raise ProtocolError(f"a frame of stream {number}, which has not begun")
        return stream

    def _take_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ProtocolError("a continuation of nothing")
        _, first, before = self._block
        self._take_headers(first | flags & END_HEADERS, number, first, before + payload)

    def _take_data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._receive_window -= size
        if self._receive_window < 0:
            raise FlowControlError("more data than the connection's window allows")
        if (stream := self._find(number)) is not None:
            if stream.received_all:
                raise ProtocolError("data after the end of its stream")
            stream.feed(strip_padding(flags, payload), size)
            if flags & END_STREAM:
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
        headers = self._decoder.decode(block)
        stream = self.streams.get(number)
        if stream is None:
            stream = self.begin_stream(number, headers)
        elif stream.received_all:
            raise ProtocolError("headers after the end of their stream")
        else:
            stream.take_headers(headers, ended=bool(first & END_STREAM))
        if stream is not None and first & END_STREAM:
            stream.feed_end()

    def _take_settings(self, payload: bytes) -> None:
        for name, value in parse_settings(payload):
            if name == Setting.INITIAL_WINDOW_SIZE:
                change, self.stream_window = value - self.stream_window, value
                for stream in self.streams.values():
                    stream.send_window = _widen(stream.send_window, change)
            elif name == Setting.MAX_FRAME_SIZE:
                self.max_frame = min(value, MAX_SENT_FRAME)
            elif name == Setting.MAX_CONCURRENT_STREAMS:
                self.max_streams = value
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
        for stream in tuple(self.streams.values()):
            stream.wake_writer()

    # Frames out.

    def write(self, data: bytes) -> None:
        """Send bytes together with others of the same round of the loop."""
        if not self._unsent:
            self.loop.call_soon(self.flush)
        self._unsent.append(data)
        if len(data) > _FLUSH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Send what was collected."""
        if self._unsent:
            data, self._unsent = b"".join(self._unsent), []
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
        payload = self.last.to_bytes(4) + code.to_bytes(4) + reason.encode()[:256]
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
