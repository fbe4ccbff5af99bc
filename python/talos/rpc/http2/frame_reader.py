"""The receiving half of a connection: what arrives is divided into frames, and headers are put together."""

from typing import ClassVar

from talos.rpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEAD,
    MAX_WINDOW,
    Bounds,
    FrameSizeError,
    Kind,
    ProtocolError,
    check_priority,
    parse_number,
    strip_priority,
)
from talos.rpc.http2.sender import Sender
from talos.rpc.receive_buffer import ReceiveBuffer

_received = ReceiveBuffer()


class FrameReader(Sender):
    """Reads frames, and calls a method of its subclass for each; any of them may raise ProtocolError."""

    preface: ClassVar[bytes] = b""
    """What this end sends first: empty for a server."""
    peer_preface: ClassVar[bytes] = b""
    """What the peer has to send first: empty for a client."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self._rest = b""
        self._has_preface = False
        self._block: tuple[int, int, bytes] | None = None
        """Headers that are to be continued: the stream, the flags of the first frame, what has arrived."""

    # What subclasses do.

    def measure(self, kind: int, flags: int, number: int, size: int) -> None:
        """Count a frame; ProtocolError when there are too many of its kind."""

    def take_data(self, flags: int, number: int, payload: memoryview) -> None:
        """A DATA frame with its padding; ``payload`` is valid during the call only."""
        raise NotImplementedError

    def take_header_block(self, number: int, block: bytes, *, ended: bool) -> None:
        """The whole of a stream's headers, compressed."""
        raise NotImplementedError

    def take_reset(self, number: int, code: int) -> None:
        """The peer ends a stream."""
        raise NotImplementedError

    def open_window(self, number: int, size: int) -> None:
        """The peer takes more data, of a stream or, with number 0, of the whole connection."""
        raise NotImplementedError

    def take_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """A frame of the whole connection: SETTINGS, PING or GOAWAY."""
        raise NotImplementedError

    def fail(self, reason: str, code: int) -> None:
        """End a connection because of the peer's protocol error."""
        raise NotImplementedError

    # What asyncio calls.

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
                self.take_data(flags, number, payload)
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
                block = strip_priority(flags, number, payload)
                if flags & END_HEADERS:
                    self.take_header_block(number, block, ended=bool(flags & END_STREAM))
                else:
                    self._block = (number, flags, block)
            case Kind.CONTINUATION:
                self._continue_block(flags, number, payload)
            case Kind.WINDOW_UPDATE:
                self.open_window(number, parse_number(payload) & MAX_WINDOW)
            case Kind.RST_STREAM:
                self.take_reset(number, parse_number(payload))
            case Kind.PUSH_PROMISE:
                raise ProtocolError("a push")
            case Kind.SETTINGS | Kind.PING | Kind.GOAWAY:
                self.take_control(kind, flags, number, payload)
            case Kind.PRIORITY:
                check_priority(number, payload)  # it means nothing any more
            case _:
                pass  # RFC 9113, 4.1: frames of unknown types are ignored

    def _continue_block(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ProtocolError("a continuation of nothing")
        _, first, before = self._block
        block = before + payload
        if flags & END_HEADERS:
            self._block = None
            self.take_header_block(number, block, ended=bool(first & END_STREAM))
        else:
            self._block = (number, first, block)
