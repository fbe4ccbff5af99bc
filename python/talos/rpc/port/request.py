"""The headers of a request from the network: gRPC's rules for them, and ours for metadata."""

import re
from collections.abc import Iterable, Mapping

from talos.api.rpc import Code, RpcError
from talos.rpc.limits import MAX_RECEIVED_METADATA
from talos.rpc.protocol import (
    Headers,
    Metadata,
    Status,
    check_size,
    is_transport_key,
    make_trailers,
    parse_metadata,
)

_MAX_AUTHORITY = 300
_KEY = re.compile(r"[0-9a-z_.\-]+")
_VALUE = re.compile(r"[ -~]*")


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
    check_size(metadata, MAX_RECEIVED_METADATA)
    return metadata
