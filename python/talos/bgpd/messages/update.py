"""UPDATE: routes that are announced and withdrawn (RFC 4271, section 4.3; RFC 4760; RFC 7606; RFC 8950)."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from talos.bgpd.messages.attributes import (
    MALFORMED_LIST,
    OPTIONAL_ERROR,
    Attributes,
    Raw,
    Type,
    WithdrawError,
    format_attributes,
    format_reach,
    format_unreach,
    read_attributes,
    read_next_hop,
    split_attributes,
)
from talos.bgpd.messages.framing import MAX_BODY
from talos.bgpd.messages.notification import BgpError, Code
from talos.bgpd.messages.open_message import Agreement
from talos.bgpd.messages.prefixes import (
    UNICAST,
    Address,
    Family,
    Network,
    PrefixError,
    parse_prefixes,
    split_prefixes,
)

_INVALID_NETWORK = 10
_FAMILY = struct.Struct(">HB")
_ADDRESS_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NextHop:
    """Where packets go: an address, and the peer's on the link that both share, if it has named that."""

    address: Address
    link_local: IPv6Address | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one message changes. ``problem``: why its routes are among those that are withdrawn."""

    withdrawn: tuple[Network, ...] = ()
    announced: tuple[tuple[NextHop, tuple[Network, ...]], ...] = ()
    attributes: Attributes | None = None
    """Those of all that is announced."""
    problem: str = ""


def parse_update(body: bytes, agreement: Agreement) -> Update:
    """A body of at least four bytes, as :mod:`talos.bgpd.messages.framing` guarantees; BgpError."""
    withdrawn_end = 2 + int.from_bytes(body[:2])
    begin = withdrawn_end + 2
    end = begin + int.from_bytes(body[withdrawn_end:begin])
    if begin > len(body) or end > len(body):
        raise BgpError(Code.UPDATE, MALFORMED_LIST)
    withdrawn = list(_parse_ipv4(body[2:withdrawn_end]))
    plain = _parse_ipv4(body[end:])
    found, problem = split_attributes(body[begin:end])
    if Type.MP_UNREACH in found:
        withdrawn += _parse_unreach(found[Type.MP_UNREACH])
    family, hop_bytes, reached = _parse_reach(found.get(Type.MP_REACH))
    if Family.IPV4 not in agreement.families:
        plain = ()
    if family not in agreement.families:
        reached = ()
    if not plain and not reached:
        return Update(withdrawn=_select(withdrawn, agreement), problem=problem)
    if problem:
        return Update(withdrawn=_select([*withdrawn, *plain, *reached], agreement), problem=problem)
    try:
        width = 4 if agreement.has_four_bytes else 2
        attributes = read_attributes(found, width=width, is_internal=agreement.is_internal)
        announced: list[tuple[NextHop, tuple[Network, ...]]] = []
        if plain:
            announced.append((NextHop(address=read_next_hop(found)), plain))
        if reached:
            announced.append((_parse_next_hop(hop_bytes, family, agreement), reached))
    except WithdrawError as error:
        return Update(withdrawn=_select([*withdrawn, *plain, *reached], agreement), problem=str(error))
    return Update(withdrawn=_select(withdrawn, agreement), announced=tuple(announced), attributes=attributes)


def _select(networks: Sequence[Network], agreement: Agreement) -> tuple[Network, ...]:
    versions = {family.version for family in agreement.families}
    return tuple(network for network in networks if network.version in versions)


def _parse_ipv4(data: bytes) -> tuple[Network, ...]:
    try:
        return parse_prefixes(data, Family.IPV4)
    except PrefixError:
        raise BgpError(Code.UPDATE, _INVALID_NETWORK) from None


def _parse_unreach(item: Raw) -> tuple[Network, ...]:
    if len(item.value) < _FAMILY.size:
        raise BgpError(Code.UPDATE, OPTIONAL_ERROR)
    return _parse_networks(item.value[: _FAMILY.size], item.value[_FAMILY.size :])


def _parse_reach(item: Raw | None) -> tuple[Family, bytes, tuple[Network, ...]]:
    """The family, the bytes of the next hop, the networks; none of a family that is not supported."""
    if item is None:
        return Family.IPV6, b"", ()
    head, value = item.value[: _FAMILY.size], item.value[_FAMILY.size :]
    end = 1 + (value[0] if value else 0)
    # A byte that is reserved follows the next hop.
    if len(value) < end + 1:
        raise BgpError(Code.UPDATE, OPTIONAL_ERROR)
    networks = _parse_networks(head, value[end + 1 :])
    return Family(int.from_bytes(head[:2])) if networks else Family.IPV6, value[1:end], networks


def _parse_networks(head: bytes, data: bytes) -> tuple[Network, ...]:
    afi, safi = _FAMILY.unpack(head)
    if afi not in Family or safi != UNICAST:
        return ()  # it was not agreed on
    try:
        return parse_prefixes(data, Family(afi))
    except PrefixError:
        raise BgpError(Code.UPDATE, OPTIONAL_ERROR) from None


def _parse_next_hop(data: bytes, family: Family, agreement: Agreement) -> NextHop:
    if len(data) == 4 and family is Family.IPV4:
        return NextHop(address=IPv4Address(data))
    if len(data) not in {_ADDRESS_BYTES, 2 * _ADDRESS_BYTES} or (
        family is Family.IPV4 and not agreement.has_extended_next_hop
    ):
        raise WithdrawError(f"a next hop of {len(data)} bytes for {family.name}")
    address = IPv6Address(data[:_ADDRESS_BYTES])
    second = IPv6Address(data[_ADDRESS_BYTES:]) if len(data) > _ADDRESS_BYTES else address
    return NextHop(address=address, link_local=second if second.is_link_local else None)


def make_withdrawals(networks: Iterable[Network]) -> Iterator[bytes]:
    """Bodies that withdraw networks."""
    ipv4 = [network for network in networks if network.version == 4]
    ipv6 = [network for network in networks if network.version == 6]
    for part in split_prefixes(ipv4, MAX_BODY - 4):
        yield len(part).to_bytes(2) + part + bytes(2)
    head = _FAMILY.pack(Family.IPV6, UNICAST)
    # The longest header of an attribute has four bytes.
    for part in split_prefixes(ipv6, MAX_BODY - 8 - len(head)):
        yield _make_body(format_unreach(head + part), b"")


def make_announcements(
    networks: Sequence[Network], attributes: Attributes, next_hop: Address, *, width: int
) -> Iterator[bytes]:
    """Bodies that announce networks of one family; ``width`` is that of AS numbers in bytes."""
    family = Family.IPV4 if networks[0].version == 4 else Family.IPV6
    if family is Family.IPV4 and isinstance(next_hop, IPv4Address):
        listed = format_attributes(attributes, width=width, next_hop=next_hop)
        for part in split_prefixes(networks, MAX_BODY - 4 - len(listed)):
            yield _make_body(listed, part)
        return
    listed = format_attributes(attributes, width=width, next_hop=None)
    packed = next_hop.packed
    head = _FAMILY.pack(family, UNICAST) + bytes((len(packed),)) + packed + b"\0"
    for part in split_prefixes(networks, MAX_BODY - 8 - len(listed) - len(head)):
        yield _make_body(format_reach(head + part) + listed, b"")


def make_end_of_rib(family: Family) -> bytes:
    """The body after the last of a family's routes (RFC 4724, section 2)."""
    if family is Family.IPV4:
        return bytes(4)
    return _make_body(format_unreach(_FAMILY.pack(family, UNICAST)), b"")


def _make_body(attributes: bytes, networks: bytes) -> bytes:
    return bytes(2) + len(attributes).to_bytes(2) + attributes + networks
