"""Endpoints of services outside: ``https://HOST``, ``grpc://HOST:PORT``, ``HOST:PORT``."""

import re
from dataclasses import dataclass

_ENDPOINT = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]{1,253})"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
_PLAIN = frozenset({"", "grpc"})
_PORTS = {"https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a service is, and whether it is called without TLS."""

    host: str
    port: int
    is_plain: bool


def parse_endpoint(text: str) -> Endpoint:
    """An endpoint of the config. ValueError."""
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        raise ValueError("it is no URL with a host and a port")
    scheme = found["scheme"] or ""
    port = int(found["port"] or _PORTS.get(scheme, 0))
    if not 0 < port < 1 << 16:
        raise ValueError("it has no port")
    return Endpoint(host=found["host"].strip("[]"), port=port, is_plain=scheme in _PLAIN)
