"""What RFC 9113 (8.2, 8.3) allows in the headers of requests and replies and in trailers."""

import re
from collections.abc import Callable, Mapping

from talos.rpc.http2.frames import ProtocolError
from talos.rpc.protocol import Headers

type Known = Mapping[str, str]
"""Headers by name; of repeated ones the last."""

_NAME = re.compile(r":?[!-9;-@\[-~]+")
"""Visible ASCII without capitals and, after the first character, without a colon."""
_BROKEN_VALUE = re.compile(r"[\0\r\n]")
_BROKEN_END = re.compile(r"^[ \t]|[ \t]\Z")
_LENGTH = re.compile(r"[0-9]{1,18}")
_STATUS = re.compile(r"[1-5][0-9][0-9]")
_REQUIRED = frozenset({":method", ":scheme", ":path"})
_REQUEST = _REQUIRED | {":authority"}
_REPLY = frozenset({":status"})
_NONE = frozenset[str]()
_OF_CONNECTIONS = frozenset({"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"})

_MAX_KNOWN = 512
"""Lists of headers that are remembered as checked; all are forgotten when there are more."""
_MAX_SIZE = 2048
"""Bytes of the largest that is, with 32 for every pair, as HPACK counts."""


def _remembered(check: Callable[[Headers], Known]) -> Callable[[Headers], Known]:
    """Check equal headers once: calls repeat a few lists, and the look-up costs a tenth of the check."""
    checked: dict[Headers, Known] = {}

    def lookup(headers: Headers) -> Known:
        known = checked.get(headers)
        if known is None:
            known = check(headers)
            if sum(len(name) + len(value) + 32 for name, value in headers) <= _MAX_SIZE:
                if len(checked) >= _MAX_KNOWN:
                    checked.clear()
                checked[headers] = known
        return known

    return lookup


@_remembered
def check_request(headers: Headers) -> Known:
    """The headers of a request by name; ProtocolError when they are malformed."""
    known = _check(headers, _REQUEST)
    for name, value in headers:
        if _BROKEN_END.search(value):
            raise ProtocolError(f"the header {name[:64]} begins or ends with a blank")
    if known.get("te", "trailers").lower() != "trailers":
        raise ProtocolError("the header te belongs to a connection")
    if not known.keys() >= _REQUIRED or not known[":path"]:
        raise ProtocolError("a request without method, scheme or path")
    host = known.get("host", known.get(":authority"))
    if host is None or known.get(":authority", host) != host:
        raise ProtocolError("a request with no :authority, or with a host that differs from it")
    return known


@_remembered
def check_reply(headers: Headers) -> Known:
    """The headers that a reply begins with, by name; ProtocolError when they are malformed.

    Blanks around a value are let pass: servers send them in ``grpc-message``.
    """
    known = _check(headers, _REPLY)
    if _STATUS.fullmatch(known.get(":status", "")) is None:
        raise ProtocolError("a reply without a status of HTTP")
    return known


@_remembered
def check_trailers(headers: Headers) -> Known:
    """The headers after a body, by name; ProtocolError when they are malformed."""
    return _check(headers, _NONE)


def parse_length(known: Known) -> int | None:
    """The bytes of the body that ``content-length`` announces; None without it."""
    text = known.get("content-length")
    if text is None:
        return None
    if _LENGTH.fullmatch(text) is None:
        raise ProtocolError("content-length is no number")
    return int(text)


def count_body(left: int, size: int, *, ended: bool) -> int:
    """What is left of a body of a known length after ``size`` bytes; ProtocolError when it is not as long."""
    if size > left or (ended and size < left):
        raise ProtocolError("the body is not as long as content-length says")
    return left - size


def _check(headers: Headers, pseudo: frozenset[str]) -> dict[str, str]:
    known: dict[str, str] = {}
    is_regular = False
    for name, value in headers:
        if not _NAME.fullmatch(name) or _BROKEN_VALUE.search(value):
            raise ProtocolError(f"illegal characters in the header {name[:64]!r}")
        if not name.startswith(":"):
            is_regular = True
            if name in _OF_CONNECTIONS:
                raise ProtocolError(f"the header {name} belongs to a connection")
            if name == "content-length" and known.get(name, value) != value:
                raise ProtocolError("two different values of content-length")
        elif is_regular or name in known or name not in pseudo:
            raise ProtocolError(f"the header {name[:64]} is unknown, repeated or out of order")
        known[name] = value
    return known
