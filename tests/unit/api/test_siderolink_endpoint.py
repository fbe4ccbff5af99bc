"""Endpoints of SideroLink's API."""

import pytest

from talos.api.siderolink_endpoint import SiderolinkEndpoint, parse_siderolink


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://omni.example.org", SiderolinkEndpoint(host="omni.example.org", port=443, is_plain=False)),
        (
            "grpc://10.0.0.1:4000?jointoken=a%2Bb",
            SiderolinkEndpoint(host="10.0.0.1", port=4000, is_plain=True, join_token="a+b"),
        ),
        (
            "[fd00::1]:4000/?jointoken=x&jointoken=y&grpc_tunnel=y",
            SiderolinkEndpoint(host="fd00::1", port=4000, is_plain=True, join_token="x", has_tunnel=True),
        ),
        ("https://a:1?grpc_tunnel=no", SiderolinkEndpoint(host="a", port=1, is_plain=False)),
    ],
)
def test_an_endpoint(text: str, expected: SiderolinkEndpoint) -> None:
    assert parse_siderolink(text) == expected


@pytest.mark.parametrize("text", ["", "grpc://a?jointoken=secret", "a:1?" + "secret=1&" * 20])
def test_a_mistake_shows_no_token(text: str) -> None:
    with pytest.raises(ValueError, match=r"its? ") as raised:
        parse_siderolink(text)
    assert "secret" not in str(raised.value)
