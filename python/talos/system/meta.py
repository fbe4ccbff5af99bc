"""META: a few small values in a raw partition, kept twice.

Each copy is 256 KiB, big-endian: a magic, records of tag, size and value, a record with tag 0, zeros, and at the
end the SHA-256 of the copy (with the digest's own place zeroed) and a second magic.
"""

import hashlib
import struct
from collections.abc import Mapping

COPY = 256 * 1024
"""Bytes of one copy."""
SIZE = 2 * COPY
"""Bytes of both, which stand back to back at the partition's beginning."""
_BEGIN = b"\x5a\x4b\x3c\x2d"
_END = b"\xa5\xb4\xc3\xd2"
_DIGEST = 32
_TAIL = _DIGEST + len(_END)
_RECORD = struct.Struct(">II")


def parse_meta(data: bytes) -> dict[int, bytes]:
    """The values by their tags, from the first copy that is whole. ValueError when none is."""
    for start in (0, COPY):
        copy = data[start : start + COPY]
        if _is_whole(copy):
            return _parse_copy(copy)
    raise ValueError("META holds no whole copy of its values")


def make_meta(values: Mapping[int, bytes]) -> bytes:
    """Both copies. ValueError when the values don't fit."""
    records = b"".join(_RECORD.pack(tag, len(value)) + value for tag, value in sorted(values.items()))
    room = COPY - len(_BEGIN) - _TAIL - _RECORD.size
    if len(records) > room:
        raise ValueError(f"the values of META need {len(records)} bytes, there is room for {room}")
    body = (_BEGIN + records).ljust(COPY - _TAIL, b"\0")
    digest = hashlib.sha256(body + bytes(_DIGEST) + _END).digest()
    return (body + digest + _END) * 2


def _is_whole(copy: bytes) -> bool:
    if len(copy) != COPY or not copy.startswith(_BEGIN) or not copy.endswith(_END):
        return False
    body, digest = copy[:-_TAIL], copy[-_TAIL : -len(_END)]
    return hashlib.sha256(body + bytes(_DIGEST) + _END).digest() == digest


def _parse_copy(copy: bytes) -> dict[int, bytes]:
    values: dict[int, bytes] = {}
    place, end = len(_BEGIN), COPY - _TAIL
    while place + _RECORD.size <= end:
        tag, size = _RECORD.unpack_from(copy, place)
        place += _RECORD.size
        if not tag or place + size > end:
            break
        values[tag] = copy[place : place + size]
        place += size
    return values
