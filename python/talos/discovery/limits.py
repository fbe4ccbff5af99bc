"""Bounds of the discovery server. Those of requests are the public service's, which clients keep to."""

from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration

from talos.api.discovery.cluster_pb2 import AffiliateUpdateRequest

ID_BYTES = 256
"""Bytes of the id of a cluster or an affiliate."""

DATA_BYTES = 2048
ENDPOINT_BYTES = 32
MAX_TTL = 30 * 60.0
"""Seconds."""

MAX_REQUEST = 16 * 1024
"""Bytes of a request: the largest valid one has less than 6 KiB."""

REQUESTS_PER_SECOND = 15.0
BURST = 60.0
"""Requests of one client; a node sends two when it connects, then one in 15 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the server keeps in memory. The defaults are at most 300 MiB of data."""

    clusters: int = 10_000
    affiliates: int = 65_536
    subscriptions: int = 65_536
    cluster_affiliates: int = 1024
    cluster_subscriptions: int = 2048
    affiliate_endpoints: int = 64


class InvalidRequestError(Exception):
    """A request that no valid client sends."""


class FullError(Exception):
    """There is no room for more."""


def check_cluster_id(id: str) -> None:
    """Refuse an id that is empty or too long."""
    _check_id("cluster", id)


def check_affiliate_id(id: str) -> None:
    """Refuse an id that is empty or too long."""
    _check_id("affiliate", id)


def check_update(request: AffiliateUpdateRequest) -> None:
    """Refuse an update that is out of bounds."""
    check_cluster_id(request.cluster_id)
    check_affiliate_id(request.affiliate_id)
    if len(request.affiliate_data) > DATA_BYTES:
        raise InvalidRequestError("affiliate data is too big")
    if any(len(endpoint) > ENDPOINT_BYTES for endpoint in request.affiliate_endpoints):
        raise InvalidRequestError("affiliate endpoint is too big")
    seconds = seconds_of(request.ttl)
    if seconds > MAX_TTL:
        raise InvalidRequestError("ttl is too large")
    if seconds <= 0:
        raise InvalidRequestError("ttl is not positive")


def seconds_of(duration: Duration) -> float:
    """A duration in seconds, whatever its two numbers are."""
    return duration.seconds + duration.nanos / 1e9


def _check_id(what: str, id: str) -> None:
    if not id:
        raise InvalidRequestError(f"{what} ID can't be empty")
    if len(id.encode()) > ID_BYTES:
        raise InvalidRequestError(f"{what} ID is too long")
