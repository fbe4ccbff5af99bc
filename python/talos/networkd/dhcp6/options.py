"""Options of DHCPv6 and the values of those with names and addresses. RFC 8415, 3646, 4704, 5908."""

import enum
import struct
from collections.abc import Iterator
from ipaddress import IPv6Address

MAX_SERVERS = 16
MAX_OPTIONS = 256
SUCCESS, NO_BINDING, NOT_ON_LINK = 0, 3, 4
"""Statuses."""
_OPTION = struct.Struct("!HH")
_MAX_LABEL, _MAX_NAME = 63, 253


class Option(enum.IntEnum):
    """Options that are sent or understood."""

    CLIENT_ID = 1
    SERVER_ID = 2
    ASSOCIATION = 3
    ADDRESS = 5
    REQUESTED = 6
    PREFERENCE = 7
    ELAPSED = 8
    STATUS = 13
    RAPID_COMMIT = 14
    DNS_SERVERS = 23
    DOMAIN_LIST = 24
    CLIENT_NAME = 39
    NTP_SERVER = 56


class UnusableReplyError(ValueError):
    """A reply that can't be used; the text is the reason. ``status`` is the server's, 0 when it gave none."""

    def __init__(self, text: str, status: int = SUCCESS) -> None:
        super().__init__(text)
        self.status = status


def split_options(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and values; UnusableReplyError."""
    position = 0
    for _ in range(MAX_OPTIONS):
        if position == len(data):
            return
        if position + _OPTION.size > len(data):
            break
        option, length = _OPTION.unpack_from(data, position)
        position += _OPTION.size + length
        if position > len(data):
            break
        yield option, data[position - length : position]
    raise UnusableReplyError("options are cut off, or too many")


def make_option(option: Option, value: bytes) -> bytes:
    """An option as it is sent."""
    return _OPTION.pack(option, len(value)) + value


def is_unusable(address: IPv6Address) -> bool:
    """Whether it is no address of one host."""
    return address.is_unspecified or address.is_loopback or address.is_multicast


def parse_addresses(value: bytes) -> tuple[IPv6Address, ...]:
    """Those that can be used, each once; ValueError."""
    if not value or len(value) % 16:
        raise ValueError(f"{len(value)} bytes")
    found = [IPv6Address(value[start : start + 16]) for start in range(0, len(value), 16)]
    usable = [address for address in found if not is_unusable(address)]
    return tuple(dict.fromkeys(usable))[:MAX_SERVERS]


def parse_names(value: bytes) -> tuple[str, ...]:
    """Names as in DNS, which must not be compressed here; ValueError."""
    names: list[str] = []
    position = 0
    while position < len(value) and len(names) < MAX_SERVERS:
        labels: list[str] = []
        while position < len(value) and (length := value[position]):
            label = value[position + 1 : position + 1 + length]
            if length > _MAX_LABEL or len(label) < length:
                raise ValueError("a malformed label")
            labels.append(_check_label(label))
            position += 1 + length
        position += 1
        name = ".".join(labels)
        if not name or len(name) > _MAX_NAME:
            raise ValueError("a name of no or too many characters")
        names.append(name)
    return tuple(dict.fromkeys(names))


def _check_label(label: bytes) -> str:
    text = label.decode("ascii", "replace")
    if not text.isascii() or not text.replace("-", "a").replace("_", "a").isalnum() or text[0] == "-":
        raise ValueError(f"{text!r} is no part of a name")
    return text


def parse_time_servers(value: bytes) -> tuple[str, ...]:
    """Addresses and names of option 56; ValueError."""
    servers: list[str] = []
    for option, inner in split_options(value):
        if option == 1:
            servers += [str(address) for address in parse_addresses(inner)]
        elif option == 3:
            servers += parse_names(inner)
    return tuple(dict.fromkeys(servers))[:MAX_SERVERS]


def parse_client_name(value: bytes) -> str:
    """The name of option 39, after its flags; without a domain it may lack its end. ValueError."""
    if len(value) < 2:
        return ""
    name = value[1:]
    names = parse_names(name if name.endswith(b"\0") else name + b"\0")
    return names[0] if names else ""
