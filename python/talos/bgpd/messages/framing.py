"""Messages of BGP on a connection: header, length, type (RFC 4271, section 4.1; RFC 2918)."""

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from talos.bgpd.messages.notification import BgpError, Code

MARKER = b"\xff" * 16
MAX_MESSAGE = 4096
"""Bytes with the header. RFC 8654's longer ones are not negotiated."""
_HEADER = struct.Struct(">16sHB")
HEADER_BYTES = _HEADER.size
MAX_BODY = MAX_MESSAGE - HEADER_BYTES


class Kind(enum.IntEnum):
    """Types of messages."""

    OPEN = 1
    UPDATE = 2
    NOTIFICATION = 3
    KEEPALIVE = 4
    ROUTE_REFRESH = 5


_BODIES = {
    Kind.OPEN: (10, MAX_BODY),
    Kind.UPDATE: (4, MAX_BODY),
    Kind.NOTIFICATION: (2, MAX_BODY),
    Kind.KEEPALIVE: (0, 0),
    Kind.ROUTE_REFRESH: (4, 4),
}
"""The fewest and the most bytes of each kind's body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message without its header."""

    kind: Kind
    body: bytes


NOT_SYNCHRONIZED, BAD_LENGTH, BAD_TYPE = 1, 2, 3
"""Subcodes of ``Code.HEADER`` (section 6.1)."""


class MessageReader:
    """Cuts what a connection brings into messages; holds less than one message in between."""

    def __init__(self) -> None:
        self._data = bytearray()

    def receive(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now. BgpError for a header after which nothing can follow."""
        self._data += data
        while len(self._data) >= HEADER_BYTES:
            marker, length, kind = _HEADER.unpack_from(self._data)
            _check_header(marker, length, kind)
            if len(self._data) < length:
                return
            body = bytes(self._data[HEADER_BYTES:length])
            del self._data[:length]
            yield Message(kind=Kind(kind), body=body)


def _check_header(marker: bytes, length: int, kind: int) -> None:
    if marker != MARKER:
        raise BgpError(Code.HEADER, NOT_SYNCHRONIZED)
    if not HEADER_BYTES <= length <= MAX_MESSAGE:
        raise BgpError(Code.HEADER, BAD_LENGTH, length.to_bytes(2))
    if kind not in Kind:
        raise BgpError(Code.HEADER, BAD_TYPE, bytes((kind,)))
    fewest, most = _BODIES[Kind(kind)]
    if not fewest <= length - HEADER_BYTES <= most:
        raise BgpError(Code.HEADER, BAD_LENGTH, length.to_bytes(2))


def make_message(kind: Kind, body: bytes = b"") -> bytes:
    """A message with its header; the caller keeps ``body`` within ``MAX_BODY``."""
    return _HEADER.pack(MARKER, HEADER_BYTES + len(body), kind) + body


KEEPALIVE = make_message(Kind.KEEPALIVE)
