"""Addresses of clients: as they are logged, and as limits count them."""

import ipaddress
from urllib.parse import unquote

_KUBESPAN, _SIDEROLINK = 0x02, 0x03
"""In the eighth byte of a generated unique local address is its purpose."""


def is_siderolink(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is SideroLink's: one of the point-to-point link to a manager."""
    return _has_purpose(address, _SIDEROLINK)


def is_kubespan(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is KubeSpan's: one of a node in the encrypted network between nodes."""
    return _has_purpose(address, _KUBESPAN)


def _has_purpose(address: ipaddress.IPv4Address | ipaddress.IPv6Address, purpose: int) -> bool:
    return (
        isinstance(address, ipaddress.IPv6Address)
        and address.packed[0] == 0xFD
        and address.packed[7] == purpose
    )


def format_address(name: tuple[str, int]) -> str:
    """A socket's address as text; an IPv4 one without its IPv6 prefix."""
    host, port = name[0].removeprefix("::ffff:"), name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(name: tuple[str, int]) -> str:
    """A socket's address without port and zone; an IPv4 one without its IPv6 prefix."""
    return name[0].partition("%")[0].removeprefix("::ffff:")


def network_of(host: str) -> str:
    """What limits count instead of an address: of IPv6 the /64, which one machine can have to itself."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)


def parse_peer(peer: str) -> str:
    """The address in grpc's name of a peer, such as ``ipv4:192.0.2.1:51234``; empty when it has none."""
    family, _, rest = unquote(peer).partition(":")
    if family not in {"ipv4", "ipv6"}:
        return ""
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
