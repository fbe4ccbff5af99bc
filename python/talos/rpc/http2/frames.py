"""Frames of HTTP/2 as bytes (RFC 9113): what both ends of a connection need of them."""

import struct
from dataclasses import dataclass
from typing import Final

from talos.rpc.limits import MAX_MESSAGE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

DEFAULT_WINDOW = 65535
MIN_FRAME, MAX_FRAME = 16384, (1 << 24) - 1
"""Limits of the setting for the largest frame, in bytes; the first is what a peer may send before it."""
MAX_WINDOW = (1 << 31) - 1

HEAD = struct.Struct(">HBBBI")  # length in 16 and 8 bits, kind, flags, stream
_SETTING = struct.Struct(">HI")
_PRIORITY_SIZE = 5


class Kind:
    """Types of frames."""

    DATA: Final = 0
    HEADERS: Final = 1
    PRIORITY: Final = 2
    RST_STREAM: Final = 3
    SETTINGS: Final = 4
    PUSH_PROMISE: Final = 5
    PING: Final = 6
    GOAWAY: Final = 7
    WINDOW_UPDATE: Final = 8
    CONTINUATION: Final = 9


class Setting:
    """Names of settings."""

    HEADER_TABLE_SIZE: Final = 1
    ENABLE_PUSH: Final = 2
    MAX_CONCURRENT_STREAMS: Final = 3
    INITIAL_WINDOW_SIZE: Final = 4
    MAX_FRAME_SIZE: Final = 5
    MAX_HEADER_LIST_SIZE: Final = 6


class ErrorCode:
    """Why a stream or a connection ends."""

    NO_ERROR: Final = 0
    PROTOCOL_ERROR: Final = 1
    FLOW_CONTROL_ERROR: Final = 3
    STREAM_CLOSED: Final = 5
    FRAME_SIZE_ERROR: Final = 6
    REFUSED_STREAM: Final = 7
    CANCEL: Final = 8
    COMPRESSION_ERROR: Final = 9
    ENHANCE_YOUR_CALM: Final = 11


class ProtocolError(Exception):
    """The peer violates HTTP/2; the connection ends with this code."""

    code = ErrorCode.PROTOCOL_ERROR


class FlowControlError(ProtocolError):
    """The peer sends more than its windows allow, or opens one too far."""

    code = ErrorCode.FLOW_CONTROL_ERROR


class FrameSizeError(ProtocolError):
    """A frame has a size that its kind can't have."""

    code = ErrorCode.FRAME_SIZE_ERROR


class StreamClosedError(ProtocolError):
    """A frame comes after its sender has ended the stream."""

    code = ErrorCode.STREAM_CLOSED


class CompressionError(ProtocolError):
    """A header block can't be decoded, or leaves the table other than it was agreed."""

    code = ErrorCode.COMPRESSION_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a peer may make a connection hold. The defaults are for this node's own daemons."""

    frame: int = 64 * 1024
    """Bytes of one frame."""

    headers: int = 64 * 1024
    """Bytes of one list of headers, as it arrives and as HPACK counts."""

    streams: int = 1024
    """Calls at a time; apid takes half as many from all of its clients."""

    stream_window: int = 64 * 1024
    """Bytes of a stream that are held for a slow reader before its sender waits."""

    connection_window: int = 1 << 30
    """Bytes of a connection; for daemons the windows of their streams are the bound."""

    unread: int = MAX_WINDOW
    """Bytes of a connection that no reader has taken, before its window stays closed."""

    unsent: int = MAX_MESSAGE
    """Bytes that may wait for a peer that does not read: answers to what it sends nevertheless."""


def make_head(kind: int, flags: int, stream: int, size: int) -> bytes:
    """What a frame with ``size`` bytes begins with."""
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream)


def make_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame as bytes."""
    return make_head(kind, flags, stream, len(payload)) + payload


def make_reset(stream: int, code: int) -> bytes:
    """The frame that ends a stream at once."""
    return make_frame(Kind.RST_STREAM, 0, stream, code.to_bytes(4))


def make_window_update(stream: int, size: int) -> bytes:
    """The frame that allows ``size`` bytes more, on a stream or with 0 on the connection."""
    return make_frame(Kind.WINDOW_UPDATE, 0, stream, size.to_bytes(4))


def make_settings(bounds: Bounds, *, is_client: bool = False) -> bytes:
    """What a connection announces at its beginning: its settings and its window."""
    values = (
        (Setting.HEADER_TABLE_SIZE, 0),
        *(((Setting.ENABLE_PUSH, 0),) if is_client else ()),
        (Setting.MAX_CONCURRENT_STREAMS, bounds.streams),
        (Setting.INITIAL_WINDOW_SIZE, bounds.stream_window),
        (Setting.MAX_FRAME_SIZE, bounds.frame),
        (Setting.MAX_HEADER_LIST_SIZE, bounds.headers),
    )
    settings = make_frame(Kind.SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values))
    return settings + make_window_update(0, bounds.connection_window - DEFAULT_WINDOW)


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """Names and values of settings; ProtocolError when one of them can't be."""
    if len(payload) % _SETTING.size:
        raise FrameSizeError("settings of a wrong size")
    settings: list[tuple[int, int]] = list(_SETTING.iter_unpack(payload))
    for name, value in settings:
        if name == Setting.INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise FlowControlError(f"an initial window of {value} bytes")
        if name == Setting.MAX_FRAME_SIZE and not MIN_FRAME <= value <= MAX_FRAME:
            raise ProtocolError(f"frames of at most {value} bytes")
        if name == Setting.ENABLE_PUSH and value > 1:
            raise ProtocolError(f"the setting of pushes is {value}")
    return settings


def parse_number(payload: bytes) -> int:
    """The number of 31 or 32 bits that a frame consists of."""
    if len(payload) != 4:
        raise FrameSizeError("a frame of a wrong size")
    return int.from_bytes(payload)


def strip_padding[T: (bytes, memoryview)](flags: int, payload: T) -> T:
    """A frame's content without the padding that its flags announce."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("more padding than frame")
    return payload[1 : len(payload) - payload[0]]


def strip_priority(flags: int, stream: int, payload: bytes) -> bytes:
    """A block of headers without padding and the priority before it, which is deprecated and ignored."""
    payload = strip_padding(flags, payload)
    if not flags & PRIORITY:
        return payload
    if len(payload) < _PRIORITY_SIZE:
        raise FrameSizeError("headers too short for their priority")
    check_priority(stream, payload[:_PRIORITY_SIZE])
    return payload[_PRIORITY_SIZE:]


def check_priority(stream: int, payload: bytes) -> None:
    """Refuse a priority of the connection, of a wrong size, or of a stream that depends on itself."""
    if not stream:
        raise ProtocolError("a priority of no stream")
    if len(payload) != _PRIORITY_SIZE:
        raise FrameSizeError("a priority of a wrong size")
    if int.from_bytes(payload[:4]) & MAX_WINDOW == stream:
        raise ProtocolError("a stream that depends on itself")
