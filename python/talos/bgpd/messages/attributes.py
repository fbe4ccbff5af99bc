"""Path attributes, and what becomes of an UPDATE in which one is wrong (RFC 4271, RFC 7606)."""

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from talos.bgpd.messages.as_paths import (
    AS_TRANS,
    AsPath,
    AsPathError,
    format_as_path,
    merge_as4,
    parse_as_path,
)
from talos.bgpd.messages.notification import BgpError, Code

IGP, EGP, INCOMPLETE = 0, 1, 2
"""Values of ORIGIN."""
_OPTIONAL, _TRANSITIVE, _PARTIAL, _EXTENDED = 0x80, 0x40, 0x20, 0x10
MAX_UNRECOGNIZED = 1024
"""Bytes of what is passed on as it came; a path with more is not taken."""
_AGGREGATOR, _AGGREGATOR2 = struct.Struct(">I4s"), struct.Struct(">H4s")
# Subcodes of ``Code.UPDATE``.
MALFORMED_LIST, UNKNOWN_WELL_KNOWN, OPTIONAL_ERROR = 1, 2, 9


class Type(enum.IntEnum):
    """Type codes."""

    ORIGIN = 1
    AS_PATH = 2
    NEXT_HOP = 3
    MED = 4
    LOCAL_PREF = 5
    ATOMIC_AGGREGATE = 6
    AGGREGATOR = 7
    COMMUNITIES = 8
    ORIGINATOR_ID = 9
    CLUSTER_LIST = 10
    MP_REACH = 14
    MP_UNREACH = 15
    EXTENDED_COMMUNITIES = 16
    AS4_PATH = 17
    AS4_AGGREGATOR = 18
    LARGE_COMMUNITIES = 32


_FLAGS = {
    Type.ORIGIN: _TRANSITIVE,
    Type.AS_PATH: _TRANSITIVE,
    Type.NEXT_HOP: _TRANSITIVE,
    Type.MED: _OPTIONAL,
    Type.LOCAL_PREF: _TRANSITIVE,
    Type.ATOMIC_AGGREGATE: _TRANSITIVE,
    Type.AGGREGATOR: _OPTIONAL | _TRANSITIVE,
    Type.COMMUNITIES: _OPTIONAL | _TRANSITIVE,
    Type.ORIGINATOR_ID: _OPTIONAL,
    Type.CLUSTER_LIST: _OPTIONAL,
    Type.MP_REACH: _OPTIONAL,
    Type.MP_UNREACH: _OPTIONAL,
    Type.EXTENDED_COMMUNITIES: _OPTIONAL | _TRANSITIVE,
    Type.AS4_PATH: _OPTIONAL | _TRANSITIVE,
    Type.AS4_AGGREGATOR: _OPTIONAL | _TRANSITIVE,
    Type.LARGE_COMMUNITIES: _OPTIONAL | _TRANSITIVE,
}
"""What the two upper flags of each have to be."""
_UNITS = {Type.COMMUNITIES: 4, Type.EXTENDED_COMMUNITIES: 8, Type.LARGE_COMMUNITIES: 12}
"""Bytes of which a value is a multiple."""


class WithdrawError(ValueError):
    """The routes of this UPDATE are to be treated as withdrawn, the session goes on (RFC 7606)."""


@dataclass(frozen=True, slots=True)
class UnrecognizedAttribute:
    """An attribute that is passed on as it came."""

    flags: int
    code: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What a route comes with, apart from its next hop."""

    origin: int = IGP
    as_path: AsPath = ()
    med: int | None = None
    local_pref: int | None = None
    unrecognized: tuple[UnrecognizedAttribute, ...] = ()
    """In the order of their codes."""

    def find_communities(self) -> frozenset[int]:
        """The communities of RFC 1997."""
        values = [item.value for item in self.unrecognized if item.code == Type.COMMUNITIES]
        return frozenset(number for value in values for (number,) in struct.iter_unpack(">I", value))


@dataclass(frozen=True, slots=True)
class Raw:
    """An attribute as it is in a message."""

    flags: int
    code: int
    value: bytes


def split_attributes(data: bytes) -> tuple[dict[int, Raw], str]:
    """The first attribute of each code, and what is wrong with the list, if something is.

    BgpError: two lists of prefixes, of which nothing shows which one counts.
    """
    found: dict[int, Raw] = {}
    for item in _iterate(data):
        if isinstance(item, str):
            return found, item
        if item.code not in found:
            found[item.code] = item
        elif item.code in {Type.MP_REACH, Type.MP_UNREACH}:
            raise BgpError(Code.UPDATE, MALFORMED_LIST)
    return found, ""


def _iterate(data: bytes) -> Iterator[Raw | str]:
    place = 0
    while place < len(data):
        width = 2 if data[place] & _EXTENDED else 1
        begin = place + 2 + width
        end = begin + int.from_bytes(data[place + 2 : begin])
        if begin > len(data) or end > len(data):
            yield "the list of attributes ends within one"
            return
        yield Raw(data[place] & ~_EXTENDED, data[place + 1], data[begin:end])
        place = end


def read_attributes(found: dict[int, Raw], *, width: int, is_internal: bool) -> Attributes:
    """The attributes of routes; ``width`` is that of AS numbers, 2 or 4 bytes.

    WithdrawError; BgpError for a well-known attribute that this speaker has no notion of.
    """
    for item in found.values():
        _check_flags(item)
    for needed in (Type.ORIGIN, Type.AS_PATH):
        if needed not in found:
            raise WithdrawError(f"{needed.name} is missing")
    local_pref = _read_number(found, Type.LOCAL_PREF) if is_internal else None
    unrecognized = tuple(sorted(_find_unrecognized(found, width), key=lambda item: item.code))
    if sum(len(item.value) for item in unrecognized) > MAX_UNRECOGNIZED:
        raise WithdrawError(f"more than {MAX_UNRECOGNIZED} bytes of attributes")
    return Attributes(
        origin=_read_origin(found[Type.ORIGIN].value),
        as_path=_read_as_path(found, width),
        med=_read_number(found, Type.MED),
        local_pref=local_pref,
        unrecognized=unrecognized,
    )


def read_next_hop(found: dict[int, Raw]) -> IPv4Address:
    """NEXT_HOP, which the list of prefixes of the message itself needs; WithdrawError."""
    item = found.get(Type.NEXT_HOP)
    if item is None or len(item.value) != 4:
        raise WithdrawError("NEXT_HOP is missing" if item is None else f"NEXT_HOP of {len(item.value)} bytes")
    return IPv4Address(item.value)


def _check_flags(item: Raw) -> None:
    if item.code not in Type:
        if not item.flags & _OPTIONAL:
            raise BgpError(Code.UPDATE, UNKNOWN_WELL_KNOWN, _format(item.flags, item.code, item.value))
        return
    kind = Type(item.code)
    if item.flags & (_OPTIONAL | _TRANSITIVE) != _FLAGS[kind]:
        raise WithdrawError(f"{kind.name} with flags {item.flags:#04x}")


def _read_origin(value: bytes) -> int:
    if len(value) != 1 or value[0] > INCOMPLETE:
        raise WithdrawError(f"ORIGIN is {value[:8].hex()}")
    return value[0]


def _read_number(found: dict[int, Raw], kind: Type) -> int | None:
    item = found.get(kind)
    if item is None:
        return None
    if len(item.value) != 4:
        raise WithdrawError(f"{kind.name} of {len(item.value)} bytes")
    return int.from_bytes(item.value)


def _read_as_path(found: dict[int, Raw], width: int) -> AsPath:
    try:
        path = parse_as_path(found[Type.AS_PATH].value, width)
    except AsPathError as error:
        raise WithdrawError(f"AS_PATH: {error}") from None
    if width == 4 or Type.AS4_PATH not in found:
        return path
    try:
        return merge_as4(path, parse_as_path(found[Type.AS4_PATH].value, 4))
    except AsPathError:
        return path  # it is left out (RFC 6793, section 6)


def _find_unrecognized(found: dict[int, Raw], width: int) -> Iterator[UnrecognizedAttribute]:
    for item in found.values():
        if item.code in _UNITS:
            if not item.value or len(item.value) % _UNITS[Type(item.code)]:
                raise WithdrawError(f"{Type(item.code).name} of {len(item.value)} bytes")
            yield UnrecognizedAttribute(item.flags, item.code, item.value)
        elif item.code == Type.ATOMIC_AGGREGATE:
            if not item.value:
                yield UnrecognizedAttribute(item.flags, item.code, b"")
        elif item.code not in Type and item.flags & _TRANSITIVE:
            yield UnrecognizedAttribute(item.flags | _PARTIAL, item.code, item.value)
    if aggregator := _read_aggregator(found, width):
        yield UnrecognizedAttribute(_OPTIONAL | _TRANSITIVE, Type.AGGREGATOR, aggregator)


def _read_aggregator(found: dict[int, Raw], width: int) -> bytes:
    """With a number of four bytes; one that is malformed is left out (RFC 7606, section 7.7)."""
    item = found.get(Type.AGGREGATOR)
    if item is None or len(item.value) != width + 4:
        return b""
    if width == 4:
        return item.value
    number, address = _AGGREGATOR2.unpack(item.value)
    wide = found.get(Type.AS4_AGGREGATOR)
    if wide is not None and len(wide.value) == _AGGREGATOR.size:
        return wide.value
    return _AGGREGATOR.pack(number, address)


def format_attributes(attributes: Attributes, *, width: int, next_hop: IPv4Address | None) -> bytes:
    """The list as it is sent; ``next_hop`` for prefixes that are in the message itself."""
    parts = [
        _format(_TRANSITIVE, Type.ORIGIN, bytes((attributes.origin,))),
        _format(_TRANSITIVE, Type.AS_PATH, format_as_path(attributes.as_path, width)),
    ]
    if next_hop is not None:
        parts.append(_format(_TRANSITIVE, Type.NEXT_HOP, next_hop.packed))
    if attributes.med is not None:
        parts.append(_format(_OPTIONAL, Type.MED, attributes.med.to_bytes(4)))
    if attributes.local_pref is not None:
        parts.append(_format(_TRANSITIVE, Type.LOCAL_PREF, attributes.local_pref.to_bytes(4)))
    for item in attributes.unrecognized:
        if item.code == Type.AGGREGATOR and width == 2:
            number, address = _AGGREGATOR.unpack(item.value)
            short = number if number < 1 << 16 else AS_TRANS
            parts.append(_format(item.flags, item.code, _AGGREGATOR2.pack(short, address)))
            if short != number:
                parts.append(_format(item.flags, Type.AS4_AGGREGATOR, item.value))
        else:
            parts.append(_format(item.flags, item.code, item.value))
    if width == 2 and any(number >= 1 << 16 for part in attributes.as_path for number in part.numbers):
        wide = format_as_path(attributes.as_path, 4)
        parts.append(_format(_OPTIONAL | _TRANSITIVE, Type.AS4_PATH, wide))
    return b"".join(parts)


def _format(flags: int, code: int, value: bytes) -> bytes:
    if len(value) > 255:
        return bytes((flags | _EXTENDED, code)) + len(value).to_bytes(2) + value
    return bytes((flags, code, len(value))) + value


def format_reach(value: bytes) -> bytes:
    """MP_REACH_NLRI."""
    return _format(_OPTIONAL, Type.MP_REACH, value)


def format_unreach(value: bytes) -> bytes:
    """MP_UNREACH_NLRI."""
    return _format(_OPTIONAL, Type.MP_UNREACH, value)
