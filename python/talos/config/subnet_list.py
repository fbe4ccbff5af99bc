"""Lists of subnets that choose addresses: those in ``10.0.0.0/8``, none in ``!10.1.0.0/16``."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface, ip_network

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

EXCEPT = "!"
EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
"""All addresses of a version of IP."""


def parse_entry(text: str) -> tuple[Network, bool]:
    """A prefix or an address as a network, and whether it is an exception.

    ValueError: it is neither. Python alone would take a mask for the length, and an address with a zone.
    """
    subnet = text.removeprefix(EXCEPT)
    length = subnet.partition("/")[2]
    if "%" in subnet or ("/" in subnet and not length.isdigit()):
        raise ValueError(f"{text!r} is neither a prefix nor an address")
    return ip_interface(subnet).network, subnet != text


def split_entries(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """The subnets of a list to be in, and those not to be in."""
    valid: list[str] = []
    excluded: list[str] = []
    for text in texts:
        subnet = text.removeprefix(EXCEPT)
        (valid if subnet == text else excluded).append(subnet)
    return valid, excluded


def select(addresses: Iterable[Address], valid: Iterable[str], excluded: Iterable[str]) -> list[Address]:
    """The addresses in one of some subnets and in none of others."""
    inside = [ip_network(text, strict=False) for text in valid]
    outside = [ip_network(text, strict=False) for text in excluded]
    return [address for address in addresses if _is_in(address, inside) and not _is_in(address, outside)]


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
