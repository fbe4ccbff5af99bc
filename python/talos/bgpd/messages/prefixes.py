"""Prefixes as messages have them: a length in bits, and as many bytes as it needs (RFC 4271, section 4.3)."""

import enum
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

UNICAST = 1
"""The only subsequent address family (SAFI) of this daemon."""


class Family(enum.IntEnum):
    """Address family identifiers (AFI); the values are those of RFC 4760."""

    IPV4 = 1
    IPV6 = 2

    @property
    def version(self) -> int:
        """That of the addresses."""
        return 4 if self is Family.IPV4 else 6

    @property
    def address_bytes(self) -> int:
        """How long its addresses are."""
        return 4 if self is Family.IPV4 else 16


class PrefixError(ValueError):
    """A list of prefixes that can't be read."""


def family_of(value: Address | Network) -> Family:
    """The family of an address or of a network."""
    return Family.IPV4 if value.version == 4 else Family.IPV6


@lru_cache(maxsize=1024)
def _make_network(family: Family, packed: bytes, length: int) -> Network:
    """Bits beyond the length are cleared: they mean nothing (RFC 4271, section 4.3)."""
    if family is Family.IPV4:
        return IPv4Network((packed, length), strict=False)
    return IPv6Network((packed, length), strict=False)


def parse_prefixes(data: bytes, family: Family) -> tuple[Network, ...]:
    """The networks of a list; PrefixError."""
    found: list[Network] = []
    place, limit = 0, 8 * family.address_bytes
    while place < len(data):
        length = data[place]
        end = place + 1 + (length + 7) // 8
        if length > limit or end > len(data):
            raise PrefixError(f"a prefix of {length} bits in {len(data) - place} bytes")
        packed = data[place + 1 : end].ljust(family.address_bytes, b"\0")
        found.append(_make_network(family, packed, length))
        place = end
    return tuple(found)


def format_prefix(network: Network) -> bytes:
    """One network."""
    return bytes((network.prefixlen,)) + network.network_address.packed[: (network.prefixlen + 7) // 8]


def split_prefixes(networks: Iterable[Network], room: int) -> Sequence[bytes]:
    """Lists of networks, each of ``room`` bytes at most."""
    lists: list[bytes] = []
    current = bytearray()
    for network in networks:
        item = format_prefix(network)
        if current and len(current) + len(item) > room:
            lists.append(bytes(current))
            current.clear()
        current += item
    if current:
        lists.append(bytes(current))
    return lists
