"""What a DHCP server grants, out of the options of its answer. RFC 2131, 2132 and 3442.

Servers are not trusted to make sense. An answer without a usable address is refused; of any
other value that makes no sense only that value is ignored, with a remark.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv4Network
from typing import Any

DEFAULT_LEASE_TIME = 1800.0
"""Seconds that a lease lasts whose server sends no time."""
MIN_LEASE_TIME = 30.0
"""The shortest accepted lease time, in seconds: shorter ones would flood the network with renewals."""
MTU_LIMITS = (576, 65535)
"""The range of valid MTUs: IPv4's minimum, and the limit of its length field."""
MAX_SERVERS = 16
MAX_ROUTES = 256

_FOREVER = 0xFFFFFFFF
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAME_LENGTH = 253


class UnusableAnswerError(ValueError):
    """An answer that can't be used; the text is the reason."""


@dataclass(frozen=True, slots=True)
class LeaseRoute:
    """A route of a lease; no gateway means that the destination is on the link."""

    destination: IPv4Network
    gateway: IPv4Address | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An address for a time, and what belongs to it. Times are seconds from the request on."""

    address: IPv4Interface
    server: IPv4Address | None = None
    seconds: float = DEFAULT_LEASE_TIME
    renew_seconds: float = DEFAULT_LEASE_TIME / 2
    rebind_seconds: float = DEFAULT_LEASE_TIME * 7 / 8
    routes: tuple[LeaseRoute, ...] = ()
    resolvers: tuple[IPv4Address, ...] = ()
    time_servers: tuple[IPv4Address, ...] = ()
    hostname: str = ""
    domain: str = ""
    search: tuple[str, ...] = ()
    mtu: int = 0
    remarks: tuple[str, ...] = ()
    """What was ignored, and why."""


def parse_lease(offered: str, options: Mapping[str, Any]) -> Lease:
    """The lease in an answer; UnusableAnswerError."""
    remarks: list[str] = []

    def attempt[T](parse: Callable[[Any], T], name: str, default: T) -> T:
        value = options.get(name)
        if value is None:
            return default
        try:
            return parse(value)
        except (ValueError, TypeError, AttributeError) as error:
            remarks.append(f"{name} ignored: {error}")
            return default

    address = _parse_address(offered)
    length = attempt(_parse_mask, "subnet_mask", 32)
    seconds = attempt(_parse_seconds, "lease_time", DEFAULT_LEASE_TIME)
    if seconds < MIN_LEASE_TIME:
        remarks.append(f"lease_time {seconds:.0f} s taken as {MIN_LEASE_TIME:.0f} s")
        seconds = MIN_LEASE_TIME
    renew = attempt(_parse_seconds, "renewal_time", seconds / 2)
    rebind = attempt(_parse_seconds, "rebinding_time", seconds * 7 / 8)
    if seconds != math.inf and not 0 < renew < rebind < seconds:
        remarks.append(
            f"renewal after {renew:.0f} s and {rebind:.0f} s ignored: the lease is {seconds:.0f} s"
        )
        renew, rebind = seconds / 2, seconds * 7 / 8
    routes = attempt(_parse_routes, "classless_static_route", None)
    if routes is None:  # option 121 takes the place of the routers' list
        routers = attempt(_parse_servers, "router", ())
        routes = (LeaseRoute(IPv4Network("0.0.0.0/0"), routers[0]),) if routers else ()
    return Lease(
        address=IPv4Interface((address, length)),
        server=attempt(_parse_host, "server_id", None),
        seconds=seconds,
        renew_seconds=renew,
        rebind_seconds=rebind,
        routes=routes,
        resolvers=attempt(_parse_servers, "name_server", ()),
        time_servers=attempt(_parse_servers, "ntp_servers", ()),
        hostname=attempt(_parse_name, "host_name", ""),
        domain=attempt(_parse_name, "domain_name", ""),
        search=attempt(_parse_search, "domain_search", ()),
        mtu=attempt(_parse_mtu, "interface_mtu", 0),
        remarks=tuple(remarks),
    )


def _parse_address(text: str) -> IPv4Address:
    try:
        return _parse_host(text)
    except ValueError as error:
        raise UnusableAnswerError(f"no usable address: {error}") from None


def _parse_host(text: Any) -> IPv4Address:
    try:
        address = IPv4Address(text)
    except AddressValueError as error:
        raise ValueError(str(error)) from None
    if address.is_unspecified or address.is_loopback or address.is_multicast or address.is_reserved:
        raise ValueError(f"{address} is no host's address")
    return address


def _parse_mask(text: Any) -> int:
    mask = int(IPv4Address(text))
    length = mask.bit_count()
    if not length or mask != (0xFFFFFFFF << (32 - length)) & 0xFFFFFFFF:
        raise ValueError(f"{text} is no mask of a network")
    return length


def _parse_seconds(value: Any) -> float:
    seconds = int(value) & 0xFFFFFFFF
    return math.inf if seconds == _FOREVER else float(seconds)


def _parse_servers(values: Any) -> tuple[IPv4Address, ...]:
    if not values:
        raise ValueError("empty")
    return tuple(dict.fromkeys(_parse_host(value) for value in values[:MAX_SERVERS]))


def _parse_mtu(value: Any) -> int:
    minimum, maximum = MTU_LIMITS
    if not minimum <= int(value) <= maximum:
        raise ValueError(f"{value} is not between {minimum} and {maximum}")
    return int(value)


def _parse_name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    name = value.rstrip("\0").rstrip(".")
    if not name or len(name) > _NAME_LENGTH or not all(map(_LABEL.fullmatch, name.split("."))):
        raise ValueError(f"{value[:80]!r} is no host's name")
    return name.lower()


def _parse_routes(values: Sequence[int]) -> tuple[LeaseRoute, ...]:
    """RFC 3442: length of the prefix, as many of its bytes as it needs, gateway; and so on."""
    data, routes, position = bytes(values), list[LeaseRoute](), 0
    while position < len(data):
        length = data[position]
        significant = (length + 7) // 8
        end = position + 1 + significant + 4
        if length > 32 or end > len(data):
            raise ValueError("cut off or malformed")
        prefix = data[position + 1 : end - 4].ljust(4, b"\0")
        destination = IPv4Network((prefix, length), strict=False)
        gateway = IPv4Address(data[end - 4 : end])
        if not gateway.is_unspecified:
            gateway = _parse_host(str(gateway))
        routes.append(LeaseRoute(destination, None if gateway.is_unspecified else gateway))
        position = end
    if not routes or len(routes) > MAX_ROUTES:
        raise ValueError(f"{len(routes)} routes")
    return tuple(routes)


def _parse_search(values: Sequence[int]) -> tuple[str, ...]:
    """RFC 3397: names as in DNS, with pointers to earlier parts."""
    data, names, position = bytes(values), list[str](), 0
    while position < len(data):
        labels, position = _read_labels(data, position)
        names.append(_parse_name(".".join(labels)))
    return tuple(dict.fromkeys(names[:MAX_SERVERS]))


def _read_labels(data: bytes, position: int) -> tuple[list[str], int]:
    labels: list[str] = []
    end, limit = 0, position  # pointers may only go back, so that there is an end
    while True:
        if position >= len(data):
            raise ValueError("cut off")
        length = data[position]
        if length >= 0xC0:
            target = int.from_bytes(data[position : position + 2]) & 0x3FFF
            if position + 1 >= len(data) or target >= limit:
                raise ValueError("malformed pointer")
            end = end or position + 2
            position = limit = target
        elif length > 63 or position + length >= len(data):
            raise ValueError("malformed label")
        elif length:
            labels.append(data[position + 1 : position + 1 + length].decode("ascii", "replace"))
            position += 1 + length
        else:
            return labels, end or position + 1
