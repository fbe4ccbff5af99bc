"""Header blocks of HTTP/2, without a table that changes: equal blocks mean equal headers.

A server or client of ours allows its peer no dynamic table and uses none, so what was encoded or
decoded once is looked up the next time. Calls between daemons repeat a few blocks.
"""

import hpack

from talos.rpc.protocol import Headers

MAX_HEADER_LIST = 64 * 1024
"""Bytes of one list of headers, as HPACK counts."""

_KNOWN = 512
"""Blocks that are cached; the cache is cleared when it is full."""
_LONGEST = 2048
"""Bytes of the largest block that is cached."""

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
    _remember(_encoded, headers, block, len(block))
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


def _remember[K, V](cache: dict[K, V], key: K, value: V, size: int) -> None:
    if size <= _LONGEST:
        if len(cache) >= _KNOWN:
            cache.clear()
        cache[key] = value


class HeaderDecoder:
    """Decodes the blocks of one connection."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=MAX_HEADER_LIST)

    def decode(self, block: bytes) -> Headers:
        """The headers of a block; HPACKError when it is none."""
        table = self._decoder.header_table.dynamic_entries
        if not table and (known := _decoded.get(block)) is not None:
            return known
        was_empty = not table and block[:1] and block[0] & 0xE0 != _TABLE_SIZE
        pairs = self._decoder.decode(block, raw=True)
        headers = tuple(
            (bytes(pair[0]).decode("latin-1"), bytes(pair[1]).decode("latin-1")) for pair in pairs
        )
        if was_empty and not self._decoder.header_table.dynamic_entries:
            _remember(_decoded, block, headers, len(block))
        return headers
