"""Endpoints of services outside: key management, SideroLink."""

import pytest

from talos.api.service_endpoint import Endpoint, parse_endpoint


@pytest.mark.parametrize(
    ("text", "host", "port", "is_plain"),
    [
        ("https://kms.example.org", "kms.example.org", 443, False),
        ("https://kms.example.org:4050/", "kms.example.org", 4050, False),
        ("grpcs://10.0.0.1:1", "10.0.0.1", 1, False),
        ("grpc://10.0.0.1:4050", "10.0.0.1", 4050, True),
        ("[2001:db8::1]:4050", "2001:db8::1", 4050, True),
        ("kms:4050", "kms", 4050, True),
    ],
)
def test_an_endpoint(text: str, host: str, port: int, *, is_plain: bool) -> None:
    assert parse_endpoint(text) == Endpoint(host=host, port=port, is_plain=is_plain)


@pytest.mark.parametrize(
    "text",
    ["", "kms", "grpc://kms", "https://", "https://a@b:1", "kms:0", "kms:65536", "https://k/p", "k\n:1"],
)
def test_no_endpoint(text: str) -> None:
    with pytest.raises(ValueError, match="it "):
        parse_endpoint(text)
