"""The expressions of which nftables' rules consist, as netlink attributes.

Each loads something into a register, or goes on with the rule only when the register's contents match.
"""

import socket
import struct
from dataclasses import dataclass

from talos.system.net.netlink import make_attribute, make_nested

# <linux/netfilter/nf_tables.h>
_LIST_ELEM, _DATA_VALUE, _DATA_VERDICT, _VERDICT_CODE = 1, 1, 2, 1
_REG_VERDICT, _REG = 0, 1
_META_MARK, _META_L4PROTO, _META_NFPROTO = 3, 16, 15
_PAYLOAD_NETWORK, _PAYLOAD_TRANSPORT = 1, 2
_EXTHDR_TCPOPT, _TCPOPT_MAXSEG = 1, 2
_CMP_EQ, _CMP_NEQ, _CMP_GT = 0, 1, 4
_LOOKUP_INVERTED = 1

INPUT_LINK, OUTPUT_LINK = 6, 7
"""Keys of ``meta``: names of links."""
DROP, ACCEPT = 0, 1
IPV4, IPV6 = 2, 10
LINK_NAME_BYTES = 16
TYPE_IPV4, TYPE_IPV6, TYPE_PORT, TYPE_ICMP, TYPE_LINK_NAME = 7, 8, 13, 14, 41
"""Names of nft's set types, <nftables/datatype.h>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """What a value is looked up in: ranges of numbers, ends included, of ``size`` bytes in network order.

    ``type`` is only shown by nft: the number of the set's type there.
    """

    ranges: tuple[tuple[int, int], ...]
    size: int
    type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A value in a register that shall be, or with ``inverted`` shall not be, one of the members."""

    members: Members
    inverted: bool = False


type Expression = bytes | Lookup


def make_number(kind: int, number: int) -> bytes:
    """A number of 32 bits in network order, the form of most of nftables' numbers."""
    return make_attribute(kind, struct.pack(">I", number & 0xFFFFFFFF))


def make_value(kind: int, data: bytes) -> bytes:
    """The contents of a register."""
    return make_nested(kind, make_attribute(_DATA_VALUE, data))


def _make_long(kind: int, number: int) -> bytes:
    return make_attribute(kind, struct.pack(">Q", number))


def _expression(name: str, *attributes: bytes) -> bytes:
    return make_nested(_LIST_ELEM, make_attribute(1, name), make_nested(2, *attributes))


def load_meta(key: int) -> bytes:
    """Load what is known of a packet beside its contents."""
    return _expression("meta", make_number(2, key), make_number(1, _REG))


def load_packet(base: int, offset: int, size: int) -> bytes:
    """Load bytes of a packet."""
    return _expression(
        "payload", make_number(1, _REG), make_number(2, base), make_number(3, offset), make_number(4, size)
    )


def compare(data: bytes, operator: int = _CMP_EQ) -> bytes:
    """Go on only when what was loaded is this."""
    return _expression("cmp", make_number(1, _REG), make_number(2, operator), make_value(3, data))


def mask(bits: int, flip: int) -> bytes:
    """Keep some bits of the 32 that were loaded, in the machine's order, and flip some."""
    data = [make_value(kind, struct.pack("=I", number)) for kind, number in ((4, bits), (5, flip))]
    return _expression("bitwise", make_number(1, _REG), make_number(2, _REG), make_number(3, 4), *data)


def match_family(family: int) -> tuple[bytes, ...]:
    """Go on only with packets of IPv4 or IPv6."""
    return load_meta(_META_NFPROTO), compare(bytes((family,)))


def match_protocol(number: int) -> tuple[bytes, ...]:
    """Go on only with packets of a protocol above IP."""
    return load_meta(_META_L4PROTO), compare(bytes((number,)))


def match_states(bits: int) -> tuple[bytes, ...]:
    """Go on only when connection tracking has put the packet in one of these states."""
    load = _expression("ct", make_number(2, 0), make_number(1, _REG))
    return load, mask(bits, 0), compare(bytes(4), _CMP_NEQ)


def match_mark(bits: int, flip: int, value: int) -> tuple[bytes, ...]:
    """Go on only when the packet's mark is this after :func:`mask`."""
    return load_meta(_META_MARK), mask(bits, flip), compare(struct.pack("=I", value))


def set_mark(bits: int, flip: int) -> tuple[bytes, ...]:
    """Give the packet another mark."""
    return (
        load_meta(_META_MARK),
        mask(bits, flip),
        _expression("meta", make_number(2, _META_MARK), make_number(3, _REG)),
    )


def match_address(family: int, lookup: Lookup, *, source: bool) -> tuple[Expression, ...]:
    """Go on only when the packet's source or destination is found."""
    offsets = {IPV4: (12, 16, 4), IPV6: (8, 24, 16)}[family]
    return load_packet(_PAYLOAD_NETWORK, offsets[0 if source else 1], offsets[2]), lookup


def match_port(lookup: Lookup, *, source: bool) -> tuple[Expression, ...]:
    """Go on only when the packet's port is found, of TCP and UDP alike."""
    return load_packet(_PAYLOAD_TRANSPORT, 0 if source else 2, 2), lookup


def match_icmp_type(lookup: Lookup) -> tuple[Expression, ...]:
    """Go on only when the type of an ICMP packet is found."""
    return load_packet(_PAYLOAD_TRANSPORT, 0, 1), lookup


def match_hop_limit(number: int) -> tuple[Expression, ...]:
    """Go on only with packets of IPv6 with this hop limit: 255 comes from no router."""
    return *match_family(IPV6), load_packet(_PAYLOAD_NETWORK, 7, 1), compare(bytes((number,)))


def match_link(key: int, lookup: Lookup) -> tuple[Expression, ...]:
    """Go on only when the name of the packet's link is found."""
    return load_meta(key), lookup


def limit(packets: int) -> bytes:
    """Go on with so many packets a second at most."""
    return _expression(
        "limit",
        _make_long(1, packets),
        _make_long(2, 1),
        make_number(3, packets),
        make_number(4, 0),
        make_number(5, 0),
    )


def clamp_segments(size: int) -> tuple[bytes, ...]:
    """Lower the segment size that a new TCP connection announces; a smaller one stays."""
    option = [make_number(3, 2), make_number(4, 2), make_number(6, _EXTHDR_TCPOPT)]
    kind = make_attribute(2, bytes((_TCPOPT_MAXSEG,)))
    data = size.to_bytes(2)
    return (
        *match_protocol(socket.IPPROTO_TCP),
        load_packet(_PAYLOAD_TRANSPORT, 13, 1),
        _expression(
            "bitwise",
            make_number(1, _REG),
            make_number(2, _REG),
            make_number(3, 1),
            make_value(4, b"\x06"),
            make_value(5, b"\0"),
        ),
        compare(b"\x02"),
        _expression("exthdr", make_number(1, _REG), kind, *option),
        compare(data, _CMP_GT),
        _expression("immediate", make_number(1, _REG), make_value(2, data)),
        _expression("exthdr", make_number(7, _REG), kind, *option),
    )


def count() -> bytes:
    """Count the packets that come here."""
    return _expression("counter", _make_long(1, 0), _make_long(2, 0))


def decide(verdict: int) -> bytes:
    """Accept or drop the packet."""
    code = make_nested(_DATA_VERDICT, make_number(_VERDICT_CODE, verdict))
    return _expression("immediate", make_number(1, _REG_VERDICT), make_nested(2, code))


def queue(number: int) -> bytes:
    """Hand the packet to the program that reads this queue."""
    return _expression("queue", make_attribute(1, struct.pack(">H", number)))


def make_lookup(name: str, number: int, *, inverted: bool) -> bytes:
    """Go on only when what was loaded is in a set, or is not; the number is the set's in its transaction."""
    flags = [make_number(5, _LOOKUP_INVERTED)] if inverted else []
    return _expression(
        "lookup", make_attribute(1, name), make_number(2, _REG), make_number(4, number), *flags
    )
