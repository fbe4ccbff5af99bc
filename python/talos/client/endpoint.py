"""Where a node's API listens, from the texts people write."""

from dataclasses import dataclass

from talos.system.decimals import parse_decimal
from talos.system.errors import UserError

API_PORT = 50000
"""apid's port (as upstream)."""
HTTPS_PORT = 443
"""The port of an endpoint written as ``https://host``, an API proxy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address to dial. ``host`` is a name or an address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint a text means: ``host``, ``host:port``, an IPv6 address or ``https://host``."""
    port = API_PORT
    rest = text.strip()
    if "://" in rest:
        scheme, _, rest = rest.partition("://")
        if scheme != "https":
            raise UserError(
                f'the scheme "{scheme}" is not supported',
                where=f"endpoint {text}",
                hint="write https://host or host",
            )
        rest, port = rest.rstrip("/"), HTTPS_PORT
    if not rest:
        raise UserError(
            "it names no host", where=f'endpoint "{text}"', hint="write host, host:port or https://host"
        )
    if _is_ipv6(rest):
        return Endpoint(host=rest, port=port)
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        tail = tail.removeprefix(":")
    else:
        host, _, tail = rest.partition(":")
    if tail:
        try:
            port = parse_decimal(tail, 1, 0xFFFF)
        except ValueError:
            raise UserError(
                f'"{tail}" is not a port', where=f"endpoint {text}", hint="a port is 1 to 65535"
            ) from None
    return Endpoint(host=host, port=port)


def _is_ipv6(text: str) -> bool:
    if text.count(":") < 2:
        return False
    import ipaddress

    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False
