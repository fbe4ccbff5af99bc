"""OPEN: what each side can do, and what both have agreed on (RFC 4271, section 4.2; RFC 5492)."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from talos.bgpd.messages.as_paths import AS_TRANS
from talos.bgpd.messages.notification import BgpError, Code
from talos.bgpd.messages.prefixes import UNICAST, Family

VERSION = 4
MIN_HOLD_TIME = 3
"""Seconds; 0 turns the timer off."""
_HEAD = struct.Struct(">BHH4sB")
_FAMILY = struct.Struct(">HBB")
_NEXT_HOP = struct.Struct(">HHH")
_CAPABILITIES = 2
"""The only type of optional parameters that is in use."""
_EXTENDED_LENGTH = 255
"""In the place of the parameters' length and of the first type: lengths have two bytes (RFC 9072)."""
# Capability codes.
_MULTIPROTOCOL, _ROUTE_REFRESH, _EXTENDED_NEXT_HOP, _FOUR_BYTES = 1, 2, 5, 65
# Subcodes of errors.
_UNSPECIFIC, _BAD_VERSION, _BAD_PEER, _BAD_ID, _BAD_PARAMETER, _BAD_HOLD_TIME, _NO_CAPABILITY = (
    0,
    1,
    2,
    3,
    4,
    6,
    7,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """What one side sends. ``hold_time`` is in seconds."""

    asn: int
    hold_time: int
    router_id: IPv4Address
    families: frozenset[Family] = frozenset(Family)
    has_four_bytes: bool = True
    has_extended_next_hop: bool = True
    """IPv4 prefixes may have next hops of IPv6 (RFC 8950)."""
    can_refresh: bool = True

    def format(self) -> bytes:
        """The message's body."""
        capabilities = b"".join(
            _format_capability(_MULTIPROTOCOL, _FAMILY.pack(family, 0, UNICAST))
            for family in sorted(self.families)
        )
        if self.can_refresh:
            capabilities += _format_capability(_ROUTE_REFRESH)
        if self.has_extended_next_hop:
            value = _NEXT_HOP.pack(Family.IPV4, UNICAST, Family.IPV6)
            capabilities += _format_capability(_EXTENDED_NEXT_HOP, value)
        if self.has_four_bytes:
            capabilities += _format_capability(_FOUR_BYTES, self.asn.to_bytes(4))
        parameters = bytes((_CAPABILITIES, len(capabilities))) + capabilities if capabilities else b""
        asn = self.asn if self.asn < 1 << 16 else AS_TRANS
        return _HEAD.pack(VERSION, asn, self.hold_time, self.router_id.packed, len(parameters)) + parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What holds in a session. ``hold_time`` is in seconds, 0 for none."""

    peer_asn: int
    router_id: IPv4Address
    hold_time: int
    families: frozenset[Family]
    has_four_bytes: bool
    has_extended_next_hop: bool
    is_internal: bool
    """Both are of one autonomous system."""


def agree(own: Open, peer: Open, expected_asn: int) -> Agreement:
    """What both can do; ``expected_asn`` is 0 for any. BgpError when there can be no session."""
    if expected_asn and peer.asn != expected_asn:
        raise BgpError(Code.OPEN, _BAD_PEER)
    is_internal = own.asn == peer.asn
    if is_internal and own.router_id == peer.router_id:
        raise BgpError(Code.OPEN, _BAD_ID)  # RFC 6286
    families = own.families & peer.families
    if not families:
        wanted = b"".join(
            _format_capability(_MULTIPROTOCOL, _FAMILY.pack(family, 0, UNICAST))
            for family in sorted(own.families)
        )
        raise BgpError(Code.OPEN, _NO_CAPABILITY, wanted)
    return Agreement(
        peer_asn=peer.asn,
        router_id=peer.router_id,
        hold_time=min(own.hold_time, peer.hold_time),
        families=families,
        has_four_bytes=own.has_four_bytes and peer.has_four_bytes,
        has_extended_next_hop=own.has_extended_next_hop and peer.has_extended_next_hop,
        is_internal=is_internal,
    )


def parse_open(body: bytes) -> Open:
    """A body of at least ten bytes, as :mod:`talos.bgpd.messages.framing` guarantees; BgpError."""
    version, asn, hold_time, packed_id, size = _HEAD.unpack_from(body)
    if version != VERSION:
        raise BgpError(Code.OPEN, _BAD_VERSION, VERSION.to_bytes(2))
    if 0 < hold_time < MIN_HOLD_TIME:
        raise BgpError(Code.OPEN, _BAD_HOLD_TIME)
    router_id = IPv4Address(packed_id)
    if not int(router_id):
        raise BgpError(Code.OPEN, _BAD_ID)
    capabilities: dict[int, list[bytes]] = {}
    for code, value in _iterate_capabilities(body[_HEAD.size :], size):
        capabilities.setdefault(code, []).append(value)
    wide = [int.from_bytes(value) for value in capabilities.get(_FOUR_BYTES, ()) if len(value) == 4]
    number = wide[0] if wide else asn
    if not number:
        raise BgpError(Code.OPEN, _BAD_PEER)  # RFC 7607
    return Open(
        asn=number,
        hold_time=hold_time,
        router_id=router_id,
        # A peer that names no family has IPv4 alone (RFC 4760, section 8).
        families=frozenset(_find_families(capabilities.get(_MULTIPROTOCOL, ()))) or frozenset({Family.IPV4}),
        has_four_bytes=bool(wide),
        has_extended_next_hop=any(map(_has_ipv4_over_ipv6, capabilities.get(_EXTENDED_NEXT_HOP, ()))),
        can_refresh=_ROUTE_REFRESH in capabilities,
    )


def _format_capability(code: int, value: bytes = b"") -> bytes:
    return bytes((code, len(value))) + value


def _iterate_capabilities(data: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Code and value of each, of all parameters; BgpError."""
    width = 1
    if size == _EXTENDED_LENGTH and data[:1] == bytes((_EXTENDED_LENGTH,)):
        size, data, width = int.from_bytes(data[1:3]), data[3:], 2
    if len(data) != size:
        raise BgpError(Code.OPEN, _UNSPECIFIC)
    for kind, value in _iterate(data, width):
        if kind != _CAPABILITIES:
            raise BgpError(Code.OPEN, _BAD_PARAMETER)
        yield from _iterate(value, 1)


def _iterate(data: bytes, width: int) -> Iterator[tuple[int, bytes]]:
    """Types and values, whose lengths have ``width`` bytes; BgpError."""
    place = 0
    while place < len(data):
        begin = place + 1 + width
        end = begin + int.from_bytes(data[place + 1 : begin])
        if begin > len(data) or end > len(data):
            raise BgpError(Code.OPEN, _UNSPECIFIC)
        yield data[place], data[begin:end]
        place = end


def _find_families(values: Iterable[bytes]) -> Iterator[Family]:
    for value in values:
        if len(value) == _FAMILY.size:
            afi, _, safi = _FAMILY.unpack(value)
            if safi == UNICAST and afi in Family:
                yield Family(afi)


def _has_ipv4_over_ipv6(value: bytes) -> bool:
    whole = len(value) - len(value) % _NEXT_HOP.size
    return (Family.IPV4, UNICAST, Family.IPV6) in _NEXT_HOP.iter_unpack(value[:whole])
