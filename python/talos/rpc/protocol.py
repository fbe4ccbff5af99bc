"""gRPC over HTTP/2, whichever side and library: metadata, timeouts, status, framing of messages."""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote

from talos.api.rpc import Code, RpcError
from talos.rpc.status import make_trailers as make_error_trailers

type Metadata = tuple[tuple[str, str | bytes], ...]

_TRANSPORT_KEYS = frozenset({"te", "content-type", "content-length", "user-agent", "host", "connection"})


def is_transport_key(key: str) -> bool:
    """Whether a header belongs to the connection, not to the call, so that it is not passed on."""
    if key.startswith("grpc-"):
        return key not in {"grpc-status-details-bin", "grpc-trace-bin", "grpc-tags-bin"}
    return key.startswith(":") or key in _TRANSPORT_KEYS


def check_size(metadata: Iterable[tuple[str, str | bytes]], limit: int) -> None:
    """Refuse more metadata than the limit."""
    size = sum(len(key) + len(value) + 32 for key, value in metadata)
    if size > limit:
        raise RpcError(Code.RESOURCE_EXHAUSTED, f"metadata of {size} bytes exceeds the limit of {limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a call ends. ``code`` is a number, since unknown codes are passed on, too."""

    code: int = 0
    message: str = ""
    trailers: Metadata = ()

    @classmethod
    def of(cls, error: RpcError) -> "Status":
        """The status that an error stands for."""
        return cls(code=error.code, message=error.message, trailers=make_error_trailers(error))


OK = Status()

DEADLINE_EXCEEDED = Status(code=Code.DEADLINE_EXCEEDED, message="context deadline exceeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other end of a connection: an address, and from a certificate the name and organizations.

    ``reached`` is the address of this machine that it has connected to.
    """

    address: str
    common_name: str = ""
    organizations: tuple[str, ...] = ()
    reached: str = ""

    @property
    def host(self) -> str:
        """The address without the port and brackets."""
        return self.address.rpartition(":")[0].strip("[]")


type Headers = tuple[tuple[str, str], ...]

_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_UNQUOTED = bytes(byte for byte in range(0x20, 0x7F) if byte != ord("%"))
_MAX_DIGITS = 99_999_999
_MAX_STATUS = 4096
"""Bytes of a status' message: clients refuse replies with more than 8 KiB of headers."""

MAX_TIMEOUT = 365 * 86400.0
"""Seconds; a longer timeout is this one. Much longer ones overflow in gRPC."""

PREFIX = 5
"""Bytes before a message: one of flags, four of length."""

_OF_HTTP_STATUS = {
    "400": Code.INTERNAL,
    "401": Code.UNAUTHENTICATED,
    "403": Code.PERMISSION_DENIED,
    "404": Code.UNIMPLEMENTED,
    "429": Code.UNAVAILABLE,
    "502": Code.UNAVAILABLE,
    "503": Code.UNAVAILABLE,
    "504": Code.UNAVAILABLE,
}
"""From the gRPC specification."""

REPLY_HEADERS: Headers = ((":status", "200"), ("content-type", "application/grpc"))
OK_TRAILERS: Headers = (("grpc-status", "0"),)


def parse_timeout(text: str) -> float:
    """The seconds of a ``grpc-timeout`` header."""
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise RpcError(Code.INTERNAL, f'malformed grpc-timeout: "{text}"')
    return min(int(found[1]) * _UNITS[found[2]], MAX_TIMEOUT)


def make_timeout(seconds: float) -> str:
    """The header's text for a time that remains."""
    for unit in ("u", "m", "S", "M"):
        number = int(seconds / _UNITS[unit])
        if number <= _MAX_DIGITS:
            return f"{max(number, 1)}{unit}"
    return f"{min(int(seconds / _UNITS['H']), _MAX_DIGITS)}H"


def parse_metadata(headers: Iterable[tuple[str, str]]) -> Metadata:
    """The metadata among headers, without what belongs to the connection; RpcError when it is malformed."""
    items: list[tuple[str, str | bytes]] = []
    for pair in headers:
        key = pair[0]
        if is_transport_key(key):
            continue
        if key.endswith("-bin"):
            items += ((key, _decode_binary(key, part)) for part in pair[1].split(","))
        else:
            items.append(pair)
    return tuple(items)


def _decode_binary(key: str, text: str) -> bytes:
    text = text.strip().rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:  # binascii's error, or a text that is not ASCII
        raise RpcError(Code.INTERNAL, f'malformed binary metadata "{key}"') from None


def make_headers(metadata: Iterable[tuple[str, str | bytes]]) -> Headers:
    """Metadata as headers."""
    return tuple(
        (key, base64.b64encode(value).rstrip(b"=").decode() if isinstance(value, bytes) else value)
        for key, value in metadata
    )


def make_trailers(status: Status, *, max_message: int = _MAX_STATUS) -> Headers:
    """A status as the headers that end a call, its message cut to ``max_message`` bytes."""
    if not status.code and not status.trailers:
        return OK_TRAILERS
    headers: Headers = (("grpc-status", str(status.code)),)
    if status.message:
        text = status.message.encode(errors="replace")[:max_message]
        headers += (("grpc-message", quote_from_bytes(text, safe=_UNQUOTED)),)
    return headers + make_headers(status.trailers)


def parse_trailers(headers: Headers) -> Status:
    """The status in the headers that end a call."""
    known = dict(headers)
    code = known.get("grpc-status", "")
    if not code.isdecimal():
        foreign = find_foreign_reply(known) if ":status" in known else None
        return Status.of(foreign or RpcError(Code.INTERNAL, "the call was ended without a status"))
    return Status(
        code=int(code),
        message=unquote(known.get("grpc-message", ""), errors="replace"),
        trailers=parse_metadata(headers),
    )


def find_foreign_reply(known: Mapping[str, str]) -> RpcError | None:
    """The error that a reply is which is not gRPC's, such as a page of a proxy; None for one of gRPC."""
    status, kind = known[":status"], known.get("content-type", "")
    if status != "200":
        code = _OF_HTTP_STATUS.get(status, Code.UNKNOWN)
        return RpcError(code, f"it answers with HTTP status {status}, this is no gRPC server")
    if not kind.startswith("application/grpc"):
        return RpcError(Code.UNKNOWN, f'it answers with "{kind[:64]}", this is no gRPC server')
    return None


def make_prefix(message: bytes) -> bytes:
    """What comes before a message: it is not compressed, and its length."""
    return b"\0" + len(message).to_bytes(4)


def framed(message: bytes) -> bytes:
    """A message with its prefix."""
    return make_prefix(message) + message
