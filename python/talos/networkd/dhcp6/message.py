"""DHCPv6 messages: requests, and what a server grants. RFC 8415, 3646, 4704, 5908.

pyroute2 has messages of DHCPv4 alone. Servers are not trusted to make sense: of a reply that can't be used
the reason is an error, of an option that makes no sense only that option is ignored, with a remark.
"""

import enum
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from talos.networkd.dhcp6.options import (
    NO_BINDING,
    SUCCESS,
    Option,
    UnusableReplyError,
    is_unusable,
    make_option,
    parse_addresses,
    parse_client_name,
    parse_names,
    parse_time_servers,
    split_options,
)

MAX_MESSAGE = 65535
MIN_LIFETIME = 30.0
"""The shortest accepted lifetime, in seconds: shorter ones would flood the network with renewals."""
MAX_ADDRESSES = 16

_FOREVER = 0xFFFFFFFF
_ASSOCIATION = struct.Struct("!III")
_ADDRESS = struct.Struct("!16sII")
_MAX_DUID = 130


class Kind(enum.IntEnum):
    """Types of messages."""

    SOLICIT = 1
    ADVERTISE = 2
    REQUEST = 3
    CONFIRM = 4
    RENEW = 5
    REBIND = 6
    REPLY = 7
    DECLINE = 9


_WANTED = (Option.DNS_SERVERS, Option.DOMAIN_LIST, Option.CLIENT_NAME, Option.NTP_SERVER)


@dataclass(frozen=True, slots=True)
class LeasedAddress:
    """An address for so many seconds, infinite ones included."""

    address: IPv6Address
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease6:
    """What a server grants. Times are seconds from the request on."""

    server: bytes
    addresses: tuple[LeasedAddress, ...]
    renew_seconds: float
    rebind_seconds: float
    resolvers: tuple[IPv6Address, ...] = ()
    search: tuple[str, ...] = ()
    time_servers: tuple[str, ...] = ()
    hostname: str = ""
    preference: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """When its last address ends."""
        return max(address.seconds for address in self.addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply6:
    """A server's message to this client; ``lease`` is absent in the answer to a CONFIRM."""

    kind: Kind
    is_rapid: bool
    status: int
    lease: Lease6 | None


def make_message(
    kind: Kind,
    *,
    transaction: bytes,
    client: bytes,
    association: int,
    elapsed: float,
    server: bytes = b"",
    addresses: Sequence[IPv6Address] = (),
) -> bytes:
    """A message to servers. ``transaction`` has three bytes; ``addresses`` are those leased already."""
    parts = [
        bytes((kind,)) + transaction,
        make_option(Option.CLIENT_ID, client),
        make_option(Option.ELAPSED, min(int(elapsed * 100), 0xFFFF).to_bytes(2)),
    ]
    if server:
        parts.append(make_option(Option.SERVER_ID, server))
    inner = b"".join(
        make_option(Option.ADDRESS, _ADDRESS.pack(address.packed, 0, 0)) for address in addresses
    )
    parts.append(make_option(Option.ASSOCIATION, _ASSOCIATION.pack(association, 0, 0) + inner))
    if kind not in {Kind.CONFIRM, Kind.DECLINE}:
        parts.append(make_option(Option.REQUESTED, b"".join(option.to_bytes(2) for option in _WANTED)))
        # Flag S: the server updates DNS. The name is the server's choice.
        parts.append(make_option(Option.CLIENT_NAME, b"\1\0"))
    if kind is Kind.SOLICIT:
        parts.append(make_option(Option.RAPID_COMMIT, b""))
    return b"".join(parts)


def parse_message(data: bytes, *, transaction: bytes, client: bytes, association: int) -> Reply6 | None:
    """A server's message; None when it is to another client or to another request. UnusableReplyError."""
    if len(data) < 4 or data[0] not in {Kind.ADVERTISE, Kind.REPLY} or data[1:4] != transaction:
        return None
    options: dict[int, list[bytes]] = {}
    for option, value in split_options(data[4:]):
        options.setdefault(option, []).append(value)
    if options.get(Option.CLIENT_ID) != [client]:
        return None
    servers = options.get(Option.SERVER_ID, [])
    if len(servers) != 1 or not 2 < len(servers[0]) <= _MAX_DUID:
        raise UnusableReplyError("the server does not identify itself")
    status, text = _parse_status(options.get(Option.STATUS, []))
    kind = Kind(data[0])
    has_association = Option.ASSOCIATION in options
    if status != SUCCESS and not (kind is Kind.REPLY and not has_association):
        raise UnusableReplyError(f"the server refuses with status {status}{text}", status)
    lease = _parse_lease(options, servers[0], association) if has_association else None
    return Reply6(kind=kind, is_rapid=Option.RAPID_COMMIT in options, status=status, lease=lease)


def make_duid(hardware_address: bytes) -> bytes:
    """DUID-LL, RFC 8415 section 11.4: the same after each boot, without a place to keep it."""
    return struct.pack("!HH", 3, 1) + hardware_address


def _parse_lease(options: dict[int, list[bytes]], server: bytes, association: int) -> Lease6:
    remarks: list[str] = []

    def attempt[T](option: Option, parse: Callable[[bytes], T], default: T) -> T:
        values = options.get(option)
        if not values:
            return default
        try:
            return parse(values[0])
        except ValueError as error:
            remarks.append(f"option {option.name.lower()} ignored: {error}")
            return default

    addresses, times = _parse_associations(options[Option.ASSOCIATION], association, remarks)
    renew, rebind = _parse_times(times, min(item.seconds for item in addresses), remarks)
    return Lease6(
        server=server,
        addresses=tuple(addresses),
        renew_seconds=renew,
        rebind_seconds=rebind,
        resolvers=attempt(Option.DNS_SERVERS, parse_addresses, ()),
        search=attempt(Option.DOMAIN_LIST, parse_names, ()),
        time_servers=attempt(Option.NTP_SERVER, parse_time_servers, ()),
        hostname=attempt(Option.CLIENT_NAME, parse_client_name, ""),
        preference=attempt(Option.PREFERENCE, lambda value: value[0] if value else 0, 0),
        remarks=tuple(remarks),
    )


def _parse_associations(
    values: Sequence[bytes], association: int, remarks: list[str]
) -> tuple[list[LeasedAddress], tuple[int, int]]:
    """The addresses of the client's association, and the server's times of renewal and rebinding."""
    addresses: list[LeasedAddress] = []
    times, is_withdrawn = (0, 0), False
    for value in values:
        if len(value) < _ASSOCIATION.size:
            raise UnusableReplyError("a cut off association")
        number, *rest = _ASSOCIATION.unpack_from(value)
        if number != association:
            continue
        times = rest[0], rest[1]
        for option, inner in split_options(value[_ASSOCIATION.size :]):
            if option == Option.STATUS:
                status, text = _parse_status([inner])
                if status != SUCCESS:
                    raise UnusableReplyError(f"the server refuses with status {status}{text}", status)
            elif option == Option.ADDRESS and len(addresses) < MAX_ADDRESSES:
                is_withdrawn |= _add_address(addresses, inner, remarks)
    if not addresses:
        raise UnusableReplyError("no usable address", NO_BINDING if is_withdrawn else SUCCESS)
    return addresses, times


def _parse_times(times: tuple[int, int], minimum: float, remarks: list[str]) -> tuple[float, float]:
    """When to renew and to rebind addresses of which the first ends after ``minimum`` seconds."""
    renew, rebind = (_parse_seconds(number) for number in times)
    if minimum != math.inf and 0 < renew <= rebind <= minimum:
        return renew, rebind
    # 0 leaves the choice to the client, section 14.2.
    if times != (0, 0) and minimum != math.inf:
        text = f"renewal after {renew:.0f} s and {rebind:.0f} s ignored"
        remarks.append(f"{text}: the lease is {minimum:.0f} s")
    return minimum * 0.5, minimum * 0.8


def _add_address(addresses: list[LeasedAddress], value: bytes, remarks: list[str]) -> bool:
    """Add an address that can be used; whether the server takes it back instead, by a lifetime of 0."""
    if len(value) < _ADDRESS.size:
        remarks.append("a cut off address ignored")
        return False
    packed, _, valid = _ADDRESS.unpack_from(value)
    address = IPv6Address(packed)
    for option, inner in split_options(value[_ADDRESS.size :]):
        if option == Option.STATUS and _parse_status([inner])[0] != SUCCESS:
            return False
    if is_unusable(address) or address.is_link_local:
        remarks.append(f"{address} ignored: it is no host's address")
        return False
    seconds = _parse_seconds(valid)
    if not seconds:
        return True
    if seconds < MIN_LIFETIME:
        remarks.append(f"a lifetime of {seconds:.0f} s taken as {MIN_LIFETIME:.0f} s")
        seconds = MIN_LIFETIME
    if all(known.address != address for known in addresses):
        addresses.append(LeasedAddress(address, seconds))
    return False


def _parse_status(values: Sequence[bytes]) -> tuple[int, str]:
    """The number, and the server's text as a part of a line."""
    if not values or len(values[0]) < 2:
        return SUCCESS, ""
    text = "".join(filter(str.isprintable, values[0][2:].decode("utf-8", "replace")))[:80]
    return int.from_bytes(values[0][:2]), f" ({text})" if text else ""


def _parse_seconds(number: int) -> float:
    return math.inf if number == _FOREVER else float(number)
