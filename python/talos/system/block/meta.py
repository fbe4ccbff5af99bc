"""META: a few small values in a raw partition, kept twice.

Each copy is 256 KiB, big-endian: a magic, records of tag, size and value, a record with tag 0, zeros, and
at the end the SHA-256 of the copy (with the digest's own place zeroed) and a second magic. A new value
reaches the first copy, is flushed, and then the second: a power cut leaves one of them whole.

Very old systems kept their values in two sectors of syslinux' form (``core/adv.inc``) at the partition's
end. They are read where there is nothing better, and dropped with the next write.
"""

import hashlib
import struct
from collections.abc import Mapping

from talos.system.errors import UserError

COPY = 256 * 1024
"""Bytes of one copy; two are stored back to back from the start of the partition."""
_BEGIN = b"\x5a\x4b\x3c\x2d"
_END = b"\xa5\xb4\xc3\xd2"
_DIGEST = 32
_TAIL = _DIGEST + len(_END)
_RECORD = struct.Struct(">II")

_ADV = 512
"""Bytes of a legacy copy; there are two, at the very end."""
_ADV_BEGIN = b"\xa5\x2f\x2d\x5a"
_ADV_END = b"\x64\xbf\x28\xdd"
_ADV_SUM = 0xA3041767
_ADV_WORDS = struct.Struct("<126I")


class MetaFullError(UserError):
    """The values don't fit: a user may delete some."""


def parse_meta(data: bytes) -> dict[int, bytes]:
    """The values by their tags, from the first copy that is whole. ValueError when none is.

    ``data`` is the whole partition, or its beginning when legacy copies don't matter.
    """
    for start in (0, COPY):
        copy = data[start : start + COPY]
        if _is_whole(copy):
            return _parse_copy(copy)
    for start in (len(data) - 2 * _ADV, len(data) - _ADV):
        copy = data[start : start + _ADV]
        if _is_whole_legacy(copy):
            return _parse_legacy(copy)
    raise ValueError("META holds no whole copy of its values")


def is_meta(data: bytes) -> bool:
    """Whether this is META, at least once."""
    try:
        parse_meta(data)
    except ValueError:
        return False
    return True


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


def _is_whole_legacy(copy: bytes) -> bool:
    if len(copy) != _ADV or not copy.startswith(_ADV_BEGIN) or not copy.endswith(_ADV_END):
        return False
    return sum(_ADV_WORDS.unpack_from(copy, len(_ADV_BEGIN))) & 0xFFFFFFFF == _ADV_SUM


def _parse_legacy(copy: bytes) -> dict[int, bytes]:
    values: dict[int, bytes] = {}
    place, end = 8, _ADV - len(_ADV_END)
    while place + 2 <= end and copy[place]:
        tag, size = copy[place], copy[place + 1]
        place += 2
        if place + size > end:
            break
        values[tag] = copy[place : place + size]
        place += size
    return values
