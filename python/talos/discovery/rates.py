"""How many requests a client may send: a token bucket each."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import unquote

from talos.discovery.limits import BURST, REQUESTS_PER_SECOND

CLIENTS = 16_384
"""Clients that are remembered; the one that was silent for longest is forgotten first."""


def address_of(peer: str) -> str:
    """The address in grpc's name of a peer, such as ``ipv4:192.0.2.1:51234``; empty when it has none."""
    family, _, rest = unquote(peer).partition(":")
    if family not in {"ipv4", "ipv6"}:
        return ""
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def client_of(address: str) -> str:
    """What a client is counted by: its address, in IPv6 the network of 64 bits that one site has."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address, 64), strict=False))


class Rates:
    """The buckets of all clients. ``now`` is in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By client: tokens, and when they were counted."""

    def take(self, client: str) -> float:
        """Take a token; the seconds to wait until it is there, 0 when it is."""
        now = self._now()
        tokens, counted = self._buckets.pop(client, (BURST, now))
        tokens = min(BURST, tokens + (now - counted) * REQUESTS_PER_SECOND) - 1.0
        # A client that goes on although it is refused does not go ever deeper into debt.
        tokens = max(tokens, -BURST)
        self._buckets[client] = (tokens, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return max(0.0, -tokens / REQUESTS_PER_SECOND)
