"""Which requests a server of the discovery service takes."""

from contextlib import nullcontext
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from talos.api.discovery.cluster_pb2 import AffiliateUpdateRequest
from talos.discovery.limits import InvalidRequestError, check_update

VALID: dict[str, Any] = {"cluster_id": "c", "affiliate_id": "a", "ttl": Duration(seconds=60)}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"cluster_id": ""}, "cluster ID can't be empty"),
        ({"affiliate_id": ""}, "affiliate ID can't be empty"),
        ({"cluster_id": "\u00e4" * 128, "affiliate_id": "a" * 256}, ""),
        ({"cluster_id": "\u00e4" * 128 + "a"}, "cluster ID is too long"),
        ({"affiliate_id": "a" * 257}, "affiliate ID is too long"),
        ({"affiliate_data": bytes(2048)}, ""),
        ({"affiliate_data": bytes(2049)}, "affiliate data is too big"),
        ({"affiliate_endpoints": [bytes(32)] * 100}, ""),
        ({"affiliate_endpoints": [b"", bytes(33)]}, "affiliate endpoint is too big"),
        ({"ttl": Duration(seconds=1800)}, ""),
        ({"ttl": Duration(seconds=1799, nanos=999_999_999)}, ""),
        ({"ttl": Duration(seconds=1799, nanos=1_000_000_000)}, ""),
        ({"ttl": Duration(seconds=1800, nanos=1)}, "ttl is too large"),
        ({"ttl": Duration(nanos=1)}, ""),
        ({"ttl": Duration()}, "ttl is not positive"),
        ({"ttl": Duration(seconds=-1)}, "ttl is not positive"),
        ({"ttl": Duration(seconds=1, nanos=-1_000_000_000)}, "ttl is not positive"),
    ],
)
def test_an_update_is_within_bounds(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem) if problem else nullcontext():
        check_update(AffiliateUpdateRequest(**VALID | changes))
