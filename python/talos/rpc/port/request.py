"""The headers of a request from the network: HTTP/2's rules for them, gRPC's, and ours for metadata."""

import re
from collections.abc import Iterable, Mapping

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.frames import ProtocolError
from talos.rpc.protocol import Headers, make_trailers, parse_metadata
from talos.rpc.proxy.raw import RECEIVED_LIMIT, Metadata, Status, check_size, is_transport_key

_MAX_AUTHORITY = 300
_KEY = re.compile(r"[0-9a-z_.\-]+")
_VALUE = re.compile(r"[ -~]*")
_NAME = re.compile(r":?[!-9;-@\[-~]+")
"""Visible ASCII without capitals and, after the first character, without a colon."""
_BROKEN_VALUE = re.compile(r"[\0\r\n]|^[ \t]|[ \t]\Z")
_REQUIRED = frozenset({":method", ":scheme", ":path"})
_PSEUDO = _REQUIRED | {":authority"}
_OF_CONNECTIONS = frozenset({"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"})


def check_headers(headers: Headers) -> dict[str, str]:
    """The headers by name; ProtocolError when RFC 9113 (8.2, 8.3) does not allow them in a request."""
    known: dict[str, str] = {}
    is_regular = False
    for name, value in headers:
        if not _NAME.fullmatch(name) or _BROKEN_VALUE.search(value):
            raise ProtocolError(f"illegal characters in the header {name[:64]!r}")
        if not name.startswith(":"):
            is_regular = True
            if name in _OF_CONNECTIONS or (name == "te" and value.lower() != "trailers"):
                raise ProtocolError(f"the header {name} belongs to a connection")
        elif is_regular or name in known or name not in _PSEUDO:
            raise ProtocolError(f"the header {name[:64]} is unknown, repeated or out of order")
        known[name] = value
    if not known.keys() >= _REQUIRED or not known[":path"]:
        raise ProtocolError("a request without method, scheme or path")
    host = known.get("host", known.get(":authority"))
    if host is None or known.get(":authority", host) != host:
        raise ProtocolError("a request with no :authority, or with a host that differs from it")
    return known


def refuse(headers: Mapping[str, str]) -> Headers | None:
    """The refusal of a request that is not gRPC."""
    if headers[":method"] != "POST":
        return ((":status", "405"), ("allow", "POST"))
    content_type = headers.get("content-type", "")
    base, rest = content_type[:16], content_type[16:17]
    if base != "application/grpc" or rest not in {"", "+", ";"}:
        text = f"invalid gRPC request content-type {content_type[:64]!r}"
        return ((":status", "415"), *make_trailers(Status(code=Code.INTERNAL, message=text)))
    return None


def parse_authority(headers: Mapping[str, str]) -> str:
    """The name by which the client calls this server; RpcError when it is malformed."""
    authority = headers.get(":authority", "")
    if len(authority) > _MAX_AUTHORITY or not _VALUE.fullmatch(authority):
        raise RpcError(Code.INVALID_ARGUMENT, "the :authority header is too long or has illegal characters")
    return authority


def parse_request_metadata(headers: Iterable[tuple[str, str]]) -> Metadata:
    """The metadata of a request from the network; RpcError when it is malformed or too much."""
    pairs = [pair for pair in headers if not is_transport_key(pair[0])]
    for key, value in pairs:
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise RpcError(
                Code.INVALID_ARGUMENT, f"the metadata key {key[:64]!r} or its value has illegal characters"
            )
    metadata = parse_metadata(pairs)
    check_size(metadata, RECEIVED_LIMIT)
    return metadata
