"""Header blocks of HTTP/2, without a table that changes: equal blocks mean equal headers.

A server or client of ours allows its peer no dynamic table and uses none, so what was encoded or
decoded once is looked up the next time. Calls repeat a few blocks. A peer may use a table until it has
received our settings.
"""

import hpack

from talos.rpc.http2.frames import CompressionError
from talos.rpc.protocol import Headers

NO_TABLE = b"\x20"
"""Before the first block of a connection: its sender has no table, whatever size the receiver allows."""

_KNOWN = 512
"""Blocks that are cached; the cache is cleared when it is full."""
_MAX_CACHED = 2048
"""Bytes of the largest block that is cached, and of its list as HPACK counts: with 32 for every
pair. It is less than any connection's bound."""

_STATIC = {(":method", "POST"): b"\x83", (":scheme", "http"): b"\x86", (":status", "200"): b"\x88"}
_TABLE_SIZE = 0x20  # the first bits of a change of the table's size, RFC 7541, 6.3
_SEVEN_BITS = 0x7F

_encoded: dict[Headers, bytes] = {}
_decoded: dict[bytes, Headers] = {}


def encode_headers(headers: Headers) -> bytes:
    """The block of a list of headers, neither indexed nor compressed."""
    known = _encoded.get(headers)
    if known is not None:
        return known
    block = b"".join(_STATIC.get(pair) or _encode(pair) for pair in headers)
    _remember(_encoded, headers, block, block, headers)
    return block


def _encode(pair: tuple[str, str]) -> bytes:
    name, value = (text.encode("latin-1") for text in pair)
    return b"\0" + _length(len(name)) + name + _length(len(value)) + value


def _length(number: int) -> bytes:
    """An integer with a prefix of seven bits, RFC 7541, 5.1."""
    if number < _SEVEN_BITS:
        return bytes((number,))
    out = bytearray((_SEVEN_BITS,))
    number -= _SEVEN_BITS
    while number > _SEVEN_BITS:
        out.append(number & _SEVEN_BITS | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _remember[K, V](cache: dict[K, V], key: K, value: V, block: bytes, headers: Headers) -> None:
    if len(block) <= _MAX_CACHED and sum(len(pair[0]) + len(pair[1]) + 32 for pair in headers) <= _MAX_CACHED:
        if len(cache) >= _KNOWN:
            cache.clear()
        cache[key] = value


class HeaderDecoder:
    """Decodes the blocks of one connection."""

    def __init__(self, max_list: int) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=max_list)

    def drop_table(self) -> None:
        """The peer has agreed to have no table.

        When there is something in it, the peer's next block begins with this change (RFC 9113, 4.3.1). A peer
        without a table of its own may never mention it.
        """
        self._decoder.max_allowed_table_size = 0
        if not self._decoder.header_table.dynamic_entries:
            self._decoder.header_table_size = 0

    def decode(self, block: bytes) -> Headers:
        """The headers of a block; CompressionError when it is none, without a word of what is in it."""
        # With a table, what a block means depends on those before it, and it may change the table.
        is_alone = not self._decoder.header_table_size and block[:1] and block[0] & 0xE0 != _TABLE_SIZE
        if is_alone and (known := _decoded.get(block)) is not None:
            return known
        try:
            pairs = self._decoder.decode(block, raw=True)
        except (hpack.HPACKError, ValueError, IndexError) as error:
            # For some malformed input hpack raises plain errors. Their texts have the block in them.
            raise CompressionError(f"headers that can't be decoded: {type(error).__name__}") from None
        headers = tuple(
            (bytes(pair[0]).decode("latin-1"), bytes(pair[1]).decode("latin-1")) for pair in pairs
        )
        if is_alone:
            _remember(_decoded, block, headers, block, headers)
        return headers
