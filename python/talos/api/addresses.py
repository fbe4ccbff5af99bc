"""Addresses and networks as the API has them: bytes in network order."""

from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
)

from talos.api.common.common_pb2 import NetIP, NetIPPort, NetIPPrefix


def make_ip(address: IPv4Address | IPv6Address | None) -> NetIP:
    """An address; empty for none."""
    return NetIP() if address is None else NetIP(ip=address.packed)


def make_prefix(interface: IPv4Interface | IPv6Interface | IPv4Network | IPv6Network) -> NetIPPrefix:
    """An address with its prefix length, or a network."""
    if isinstance(interface, IPv4Network | IPv6Network):
        return NetIPPrefix(ip=interface.network_address.packed, prefix_length=interface.prefixlen)
    return NetIPPrefix(ip=interface.ip.packed, prefix_length=interface.network.prefixlen)


def parse_ip_port(text: str) -> NetIPPort:
    """``192.0.2.1:443`` or ``[2001:db8::1]:443``; ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"{text[:80]!r} is no address and port")
    return NetIPPort(ip=ip_address(host.strip("[]")).packed, port=int(port))


def make_host_prefix(address: IPv4Address | IPv6Address) -> NetIPPrefix:
    """An address alone: /32 or /128."""
    return NetIPPrefix(ip=address.packed, prefix_length=address.max_prefixlen)
