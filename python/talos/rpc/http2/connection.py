"""HTTP/2 as gRPC uses it between this node's daemons: one connection, either end.

It is lean on purpose: a call costs a tenth of what it does with a general library, which keeps a state
machine for every stream and compresses headers. Connections from the network are served by
``talos.rpc.port``.

Everything here runs on asyncio's loop. Streams are used from asyncio or from trio, which share a thread.
"""

import asyncio
import struct
from typing import ClassVar, Final, Protocol, cast

import hpack

from talos.api.rpc import RpcError
from talos.rpc.http2.headers import MAX_HEADER_LIST, HeaderDecoder, encode_headers
from talos.rpc.protocol import Headers

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# RFC 9113, 6
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 1, 4, 5, 6
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, REFUSED_STREAM, CANCEL = 0, 1, 3, 7, 8

DEFAULT_WINDOW = 65535
WINDOW = 64 * 1024
"""Bytes of a stream that are held here for a slow reader before its sender waits."""
CONNECTION_WINDOW = 1 << 30
"""Bytes of a connection: its streams' windows are the bound."""
MAX_FRAME = 64 * 1024
"""Bytes of one frame."""
MAX_STREAMS = 1024
"""Calls of one connection at a time; apid takes half as many from all of its clients."""
MAX_UNREAD = 32 * 1024 * 1024
"""Bytes that may wait for a peer that does not read: answers to what it sends nevertheless."""
MAX_WINDOW = (1 << 31) - 1
_FLUSH_SIZE = 16 * 1024
"""Bytes that are sent at once instead of at the end of the loop's round."""

_HEAD = struct.Struct(">HBBBI")  # length in 16 and 8 bits, kind, flags, stream
_SETTING = struct.Struct(">HI")


class Kind:
    """Types of frames."""

    DATA: Final = 0
    HEADERS: Final = 1
    RST_STREAM: Final = 3
    SETTINGS: Final = 4
    PING: Final = 6
    GOAWAY: Final = 7
    WINDOW_UPDATE: Final = 8
    CONTINUATION: Final = 9


class ProtocolError(Exception):
    """The peer violates HTTP/2."""


def make_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame as bytes."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def _number(payload: bytes) -> int:
    if len(payload) != 4:
        raise ProtocolError("a frame of a wrong size")
    return int.from_bytes(payload) & MAX_WINDOW


_OUR_SETTINGS = make_frame(
    Kind.SETTINGS,
    0,
    0,
    b"".join(
        _SETTING.pack(name, value)
        for name, value in (
            (HEADER_TABLE_SIZE, 0),
            (INITIAL_WINDOW_SIZE, WINDOW),
            (MAX_FRAME_SIZE, MAX_FRAME),
            (MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST),
        )
    ),
) + make_frame(Kind.WINDOW_UPDATE, 0, 0, (CONNECTION_WINDOW - DEFAULT_WINDOW).to_bytes(4))


class Receiver(Protocol):
    """What a connection needs of its streams."""

    send_window: int

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
    """What both ends have in common. Subclasses begin streams."""

    greeting: ClassVar[bytes] = b""
    expected: ClassVar[bytes] = b""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.streams: dict[int, Receiver] = {}
        self.send_window = DEFAULT_WINDOW
        self.stream_window = DEFAULT_WINDOW
        self.max_frame = 16384
        self.paused = False
        self.closed = False
        self._transport: asyncio.Transport | None = None
        self._decoder = HeaderDecoder()
        self._rest = self.expected and b""
        self._greeted = not self.expected
        self._block: tuple[int, int, bytes] | None = None
        self._owed = 0
        self._unsent: list[bytes] = []

    # What subclasses do.

    def begin_stream(self, number: int, headers: Headers) -> Receiver | None:
        """The peer begins a stream; None when it is refused."""
        raise NotImplementedError

    def retire(self, last: int) -> None:
        """The peer takes no streams above a number."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self.greeting + _OUR_SETTINGS)

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        if self._rest:
            data = self._rest + data
        try:
            self._rest = data[self._take_all(data) :]
        except (ProtocolError, hpack.HPACKError, struct.error, ValueError, IndexError) as error:
            self._rest = b""
            self.fail(f"HTTP/2 protocol error: {error or type(error).__name__}")

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
        for stream in tuple(self.streams.values()):
            stream.lose("the connection was closed")
        self.streams.clear()

    # Frames in.

    def _take_all(self, data: bytes) -> int:
        """Take all complete frames; returns where the incomplete one begins."""
        position, size = 0, len(data)
        if not self._greeted:
            if size < len(self.expected):
                if not self.expected.startswith(data):
                    raise ProtocolError("no preface")
                return 0
            if not data.startswith(self.expected):
                raise ProtocolError("no preface")
            self._greeted, position = True, len(self.expected)
        while size - position >= _HEAD.size:
            high, low, kind, flags, number = _HEAD.unpack_from(data, position)
            length = high << 8 | low
            if length > MAX_FRAME:
                raise ProtocolError(f"a frame of {length} bytes")
            end = position + _HEAD.size + length
            if end > size:
                break
            self._take(kind, flags, number & MAX_WINDOW, data[position + _HEAD.size : end])
            if self.closed:
                return size
            position = end
        return position

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and kind != Kind.CONTINUATION:
            raise ProtocolError("headers are interrupted")
        match kind:
            case Kind.DATA:
                self._take_data(flags, number, payload)
            case Kind.HEADERS:
                payload = _unpad(flags, payload)
                self._take_headers(flags, number, flags, payload[5:] if flags & PRIORITY else payload)
            case Kind.CONTINUATION:
                self._take_continuation(flags, number, payload)
            case Kind.WINDOW_UPDATE:
                self._open_window(number, _number(payload))
            case Kind.RST_STREAM:
                if (stream := self.streams.pop(number, None)) is not None:
                    stream.reset(_number(payload))
            case _:
                self._take_control(kind, flags, payload)

    def _take_control(self, kind: int, flags: int, payload: bytes) -> None:
        """A frame of the whole connection; what is unknown is to be ignored."""
        if kind == Kind.SETTINGS and not flags & ACK:
            self._take_settings(payload)
        elif kind == Kind.PING and not flags & ACK:
            self.write(make_frame(Kind.PING, ACK, 0, payload))
        elif kind == Kind.GOAWAY:
            self.retire(int.from_bytes(payload[:4]) & MAX_WINDOW)

    def _take_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ProtocolError("a continuation of nothing")
        _, first, before = self._block
        if len(before) + len(payload) > MAX_HEADER_LIST:
            raise ProtocolError("too many headers")
        self._take_headers(first | flags & END_HEADERS, number, first, before + payload)

    def _take_data(self, flags: int, number: int, payload: bytes) -> None:
        self._owed += len(payload)
        if self._owed > CONNECTION_WINDOW // 2:
            self.write(make_frame(Kind.WINDOW_UPDATE, 0, 0, self._owed.to_bytes(4)))
            self._owed = 0
        stream = self.streams.get(number)
        if stream is None:
            return  # it has ended on this side
        stream.feed(_unpad(flags, payload), len(payload))
        if flags & END_STREAM:
            stream.feed_end()

    def _take_headers(self, flags: int, number: int, first: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            self._block = (number, first, block)
            return
        self._block = None
        headers = self._decoder.decode(block)
        stream = self.streams.get(number)
        if stream is not None:
            stream.take_headers(headers, ended=bool(first & END_STREAM))
        else:
            stream = self.begin_stream(number, headers)
        if stream is not None and first & END_STREAM:
            stream.feed_end()

    def _take_settings(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == INITIAL_WINDOW_SIZE:
                change, self.stream_window = value - self.stream_window, value
                for stream in self.streams.values():
                    stream.send_window += change
            elif name == MAX_FRAME_SIZE:
                self.max_frame = min(value, MAX_FRAME)
        self.write(make_frame(Kind.SETTINGS, ACK, 0, b""))
        self._wake_writers()

    def _open_window(self, number: int, size: int) -> None:
        if number == 0:
            self.send_window += size
            self._wake_writers()
        elif (stream := self.streams.get(number)) is not None:
            stream.send_window += size
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
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write(data)
                if self._transport.get_write_buffer_size() > MAX_UNREAD:
                    self.abort()

    def write_headers(self, number: int, headers: Headers, flags: int = 0) -> None:
        """Send headers, in several frames if they are large."""
        block = encode_headers(headers)
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
        last = max(self.streams, default=MAX_WINDOW)
        self.write(make_frame(Kind.GOAWAY, 0, 0, last.to_bytes(4) + NO_ERROR.to_bytes(4)))

    def fail(self, reason: str) -> None:
        """End a connection because of the peer's protocol error."""
        self.write(
            make_frame(Kind.GOAWAY, 0, 0, bytes(4) + PROTOCOL_ERROR.to_bytes(4) + reason.encode()[:256])
        )
        self.close()

    def close(self) -> None:
        """End the connection once what waits is sent."""
        self.flush()
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now, whether or not the peer reads."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()


def _unpad(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("more padding than frame")
    return payload[1 : len(payload) - payload[0]]
