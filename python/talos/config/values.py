"""Typed values of a config that are written as text: durations, sizes, addresses.

Each keeps the text as the user wrote it, checks it when read, and parses it on access.
"""

import ipaddress
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self, override
from urllib.parse import urlsplit

from talos.api.durations import format_duration, parse_duration
from talos.system.sizes import SIZE_LIMIT, format_pretty_size, parse_size

type Unstructured = Mapping[str, Any]
"""A free-form object, passed to another program unchecked."""

NOTHING: Unstructured = MappingProxyType({})
"""The empty object, as a default that can't be changed."""

type Args = Mapping[str, str | tuple[str, ...]]
"""Command line arguments: each has one value, or several when it is repeated."""


_MAX_TEXT = 64
"""Characters."""


class Text(str):
    """A text with a syntax. ``parse`` raises ValueError with what was expected instead.

    ``longest`` bounds its length before anything is matched. Where Go takes an empty text for an
    unset value, it ``may_be_empty``.
    """

    __slots__ = ()
    expected = "text"
    longest = _MAX_TEXT
    may_be_empty = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """Check a text and wrap it."""
        if len(text) > cls.longest:
            raise ValueError(f"at most {cls.longest} characters")
        value = cls(text)
        value.check()
        return value

    def check(self) -> None:
        """Raise ValueError when the text does not match."""


class Duration(Text):
    """A duration as Go writes it: ``1h30m0s``, ``500ms``."""

    __slots__ = ()
    expected = "a duration such as 30s, 5m or 1h30m"
    may_be_empty = False

    @override
    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(format_duration(parse_duration(text)))

    def check(self) -> None:
        """Raise ValueError when it is not a duration."""
        parse_duration(self)

    @property
    def seconds(self) -> float:
        """The span in seconds."""
        return parse_duration(self)


def _check_size(text: str, expected: str) -> None:
    try:
        size = parse_size(text)
    except ValueError:
        raise ValueError(expected) from None
    if size >= SIZE_LIMIT:
        raise ValueError("less than 16 EiB")


class ByteSize(Text):
    """A number of bytes, ``10GiB`` (powers of 1024) or ``10GB`` (powers of 1000)."""

    __slots__ = ()
    expected = 'a size such as "10GiB" or "500MB"'
    may_be_empty = False

    def check(self) -> None:
        """Raise ValueError when it is not a size."""
        _check_size(self, self.expected)

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return parse_size(self)


class RoundSize(ByteSize):
    """A number of bytes that is written as upstream writes it, ``10 GB``, unless that is another number."""

    __slots__ = ()

    @override
    @classmethod
    def parse(cls, text: str) -> Self:
        value = super().parse(text)
        rounded = format_pretty_size(value.bytes)
        return cls(rounded) if parse_size(rounded) == value.bytes else value


_PERCENTAGE = re.compile(r"-?\d{1,9}(?:\.\d+)?%", re.ASCII)


class Size(ByteSize):
    """A number of bytes or a share of the available ones, ``50%``; a leading minus leaves that much free."""

    __slots__ = ()
    expected = 'a size such as "10GiB" or "50%"'

    def check(self) -> None:
        """Raise ValueError when it is neither."""
        if _PERCENTAGE.fullmatch(self):
            return
        _check_size(self.removeprefix("-"), self.expected)

    @property
    def is_relative(self) -> bool:
        """Whether it depends on the available bytes."""
        return self.endswith("%") or self.startswith("-")

    def of(self, available: int) -> int:
        """The size in bytes out of ``available`` bytes."""
        sign = -1 if self.startswith("-") else 1
        text = self.removeprefix("-")
        amount = int(available * float(text[:-1]) / 100) if text.endswith("%") else ByteSize(text).bytes
        return amount if sign > 0 else max(0, available - amount)


_NOT_IN_URL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


class Url(Text):
    """An absolute URL."""

    __slots__ = ()
    expected = 'a URL such as "https://10.0.0.1:6443"'
    longest = 2048

    def check(self) -> None:
        """Raise ValueError when a part is missing or the port is no port."""
        if _NOT_IN_URL.search(self) or _BAD_ESCAPE.search(self.partition("?")[0]):
            raise ValueError("a byte that needs no escape, or an escape that is none")
        parts = urlsplit(self)
        if " " in parts.netloc:
            raise ValueError(self.expected)
        if not parts.scheme or not (parts.netloc or parts.scheme == "file"):
            raise ValueError(self.expected)
        _ = parts.port

    @property
    def scheme(self) -> str:
        """The part before the colon."""
        return urlsplit(self).scheme

    @property
    def host(self) -> str:
        """Name or address, without brackets."""
        return urlsplit(self).hostname or ""

    @property
    def path(self) -> str:
        """The part after the host."""
        return urlsplit(self).path

    @property
    def port(self) -> int | None:
        """The port, when the URL names one."""
        return urlsplit(self).port


class Address(Text):
    """An IPv4 or IPv6 address."""

    __slots__ = ()
    expected = 'an IP address such as "10.0.0.1" or "fd00::1"'

    def check(self) -> None:
        """Raise ValueError when it is not an address."""
        try:
            ipaddress.ip_address(self)
        except ValueError:
            raise ValueError(self.expected) from None

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """The address."""
        return ipaddress.ip_address(str(self))


_PREFIX_LENGTH = re.compile(r"0|[1-9]\d{0,2}", re.ASCII)


class Prefix(Text):
    """An address with a prefix length; host bits may be set."""

    __slots__ = ()
    expected = 'a prefix such as "10.0.0.0/8" or "fd00::/64"'

    def check(self) -> None:
        """Raise ValueError when it is not a prefix."""
        address, _, length = self.partition("/")
        try:
            longest = ipaddress.ip_address(address).max_prefixlen
        except ValueError:
            raise ValueError(self.expected) from None
        if "%" in address or not _PREFIX_LENGTH.fullmatch(length) or int(length) > longest:
            raise ValueError(self.expected)

    @property
    def interface(self) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
        """The address together with its network."""
        return ipaddress.ip_interface(str(self))


_NUMBER = re.compile(r"\d{1,10}", re.ASCII)


class AddressPort(Text):
    """An address and a port: ``10.0.0.1:51820``, ``[fd00::1]:51820``."""

    __slots__ = ()
    expected = 'an address with a port such as "10.0.0.1:51820" or "[fd00::1]:51820"'

    def check(self) -> None:
        """Raise ValueError when it is none."""
        host, _, port = self.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        try:
            version = ipaddress.ip_address(host[1:-1] if bracketed else host).version
        except ValueError:
            version = 0
        if version != (6 if bracketed else 4) or not _NUMBER.fullmatch(port) or int(port) > 65535:
            raise ValueError(self.expected)


class HardwareAddress(Text):
    """A link-layer address or another row of bytes in hexadecimal."""

    __slots__ = ()
    expected = 'bytes in hexadecimal such as "00:1a:2b:3c:4d:5e"'
    longest = 512
    _FORM = re.compile(r"(?:[0-9a-fA-F]{2})+")

    def check(self) -> None:
        """Raise ValueError when it is none. Colons may stand anywhere, as upstream ignores them."""
        if not self._FORM.fullmatch(self.replace(":", "")):
            raise ValueError(self.expected)


class Expression(Text):
    """A CEL expression; the checks of configs compile it."""

    __slots__ = ()
    expected = "a CEL expression"
    longest = 2048


class RoutingTable(Text):
    """A routing table by number or by its well-known name."""

    __slots__ = ()
    expected = 'a number or "main", "local", "default"'
    names = ("unspec", "default", "main", "local")
    may_be_empty = False

    def check(self) -> None:
        """Raise ValueError when it is neither."""
        if self not in self.names and not (_NUMBER.fullmatch(self) and int(self) < 2**32):
            raise ValueError(self.expected)


class PortRange(Text):
    """A port or a range of them, ``80`` or ``1024-2048``."""

    __slots__ = ()
    expected = "a port such as 80 or a range such as 1024-2048"
    may_be_empty = False
    _FORM = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)

    def check(self) -> None:
        """Raise ValueError when it is none, or its end lies before its beginning."""
        found = self._FORM.fullmatch(self)
        if found is None or not 0 <= int(found[1]) <= int(found[2] or found[1]) <= 65535:
            raise ValueError(self.expected)


class FileMode(int):
    """Permission bits of a file, written in octal."""

    __slots__ = ()

    @override
    def __str__(self) -> str:
        return f"0o{self:o}"


class Scalar(Text):
    """A text that may be written as a number."""

    __slots__ = ()
    longest = 4096
