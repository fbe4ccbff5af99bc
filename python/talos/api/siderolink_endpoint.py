"""Endpoints of SideroLink's API: ``grpc://HOST:PORT?jointoken=TOKEN&grpc_tunnel=true``, ``https://HOST``."""

from dataclasses import dataclass, field
from urllib.parse import parse_qs

from talos.api.service_endpoint import parse_endpoint

STREAM_PEER = "x-siderolink-ipv6-addr"
"""Metadata of a stream of WireGuard's packets: the machine, by the name that the service has given it."""
_TUNNEL = "grpc_tunnel"
"""The argument of the query that has WireGuard's packets carried by gRPC."""
_JOIN_TOKEN = "jointoken"  # noqa: S105 - its name
_MAX_ARGUMENTS = 16
_YES = frozenset({"true", "y"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SiderolinkEndpoint:
    """Where the API is, whether it is called without TLS, and what its URL has beside."""

    host: str
    port: int
    is_plain: bool
    join_token: str = field(default="", repr=False)
    has_tunnel: bool = False


def parse_siderolink(text: str) -> SiderolinkEndpoint:
    """The URL of a config or of the kernel's argument. ValueError, which shows no token."""
    place, _, query = text.partition("?")
    endpoint = parse_endpoint(place)
    try:
        found = parse_qs(query.partition("#")[0], max_num_fields=_MAX_ARGUMENTS)
    except ValueError:
        raise ValueError(f"its query has more than {_MAX_ARGUMENTS} arguments") from None
    return SiderolinkEndpoint(
        host=endpoint.host,
        port=endpoint.port,
        is_plain=endpoint.is_plain,
        join_token=found.get(_JOIN_TOKEN, [""])[0],
        has_tunnel=found.get(_TUNNEL, [""])[0] in _YES,
    )
