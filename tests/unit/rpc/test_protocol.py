"""What gRPC defines on top of HTTP/2, by its specification."""

import pytest

from talos.api.rpc import Code, RpcError
from talos.rpc.protocol import (
    MAX_TIMEOUT,
    OK,
    Headers,
    Status,
    make_headers,
    make_timeout,
    make_trailers,
    parse_metadata,
    parse_timeout,
    parse_trailers,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1H", 3600),
        ("2M", 120),
        ("3S", 3),
        ("4m", 4e-3),
        ("5u", 5e-6),
        ("6n", 6e-9),
        ("99999999H", MAX_TIMEOUT),
    ],
)
def test_timeouts(text: str, seconds: float) -> None:
    assert parse_timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "S", "-1S", "1.5S", "123456789S", "1 S"])
def test_malformed_timeouts(text: str) -> None:
    with pytest.raises(RpcError) as caught:
        parse_timeout(text)
    assert caught.value.code is Code.INTERNAL


@pytest.mark.parametrize("seconds", [1e-9, 1.5, 1e3, 1e6, MAX_TIMEOUT])
def test_a_timeout_is_parsed_as_it_was_made(seconds: float) -> None:
    assert parse_timeout(make_timeout(seconds)) == pytest.approx(seconds, rel=0.01, abs=1e-6)


def test_metadata_without_what_belongs_to_the_connection() -> None:
    headers = (
        (":path", "/a/b"),
        ("te", "trailers"),
        ("grpc-timeout", "1S"),
        ("x", "y"),
        ("k-bin", "AQI=, AwQ"),
    )
    metadata = parse_metadata(headers)
    assert metadata == (("x", "y"), ("k-bin", b"\1\2"), ("k-bin", b"\3\4"))
    assert parse_metadata(make_headers(metadata)) == metadata


def test_malformed_binary_metadata() -> None:
    with pytest.raises(RpcError, match="k-bin"):
        parse_metadata([("k-bin", "%")])


def test_a_status_is_parsed_as_it_was_made() -> None:
    status = Status(code=Code.NOT_FOUND, message="100 % größer\n", trailers=(("k-bin", b"\0\xff"),))
    assert parse_trailers(make_trailers(status)) == status
    assert parse_trailers(make_trailers(OK)) == OK


@pytest.mark.parametrize(
    ("headers", "code", "message"),
    [
        (((":status", "503"),), Code.UNAVAILABLE, "it answers with HTTP status 503"),
        (((":status", "302"),), Code.UNKNOWN, "it answers with HTTP status 302"),
        (((":status", "200"), ("content-type", "text/html")), Code.UNKNOWN, 'it answers with "text/html"'),
        ((("x", "y"),), Code.INTERNAL, "without a status"),
    ],
)
def test_a_reply_that_is_not_grpcs(headers: Headers, code: Code, message: str) -> None:
    status = parse_trailers(headers)
    assert status.code == code
    assert message in status.message


def test_a_message_is_cut_before_it_is_escaped() -> None:
    cut = parse_trailers(make_trailers(Status(code=2, message="ä" * 10), max_message=4))
    assert cut.message == "ää"
