"""What a key exchange server sends, right and wrong."""

import pytest

from talos.timed.nts.records import MAX_COOKIES, Granted, parse_reply


def record(kind: int, body: bytes = b"") -> bytes:
    return kind.to_bytes(2) + len(body).to_bytes(2) + body


PROTOCOL, AEAD, END = record(0x8001, b"\0\0"), record(0x8004, b"\0\x0f"), record(0x8000)
COOKIE = record(5, b"c" * 100)


def test_a_reply_is_complete_with_its_end() -> None:
    reply = PROTOCOL + AEAD + record(6, b"ntp.example.org") + record(7, b"\x10\x00") + COOKIE * 2 + END
    assert all(parse_reply(reply[:length]) is None for length in range(len(reply)))
    assert parse_reply(reply) == Granted(cookies=(b"c" * 100,) * 2, server="ntp.example.org", port=4096)


def test_more_cookies_than_needed_are_dropped() -> None:
    granted = parse_reply(PROTOCOL + AEAD + COOKIE * 50 + record(5, b"x" * 5000) + record(99) + END)
    assert granted is not None
    assert len(granted.cookies) == MAX_COOKIES


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (END, "no cookies"),
        (PROTOCOL + COOKIE + END, "no cookies"),
        (PROTOCOL + record(0x8004, b"\0\1") + COOKIE + END, "no cookies"),
        (PROTOCOL + AEAD + record(5) + END, "no cookies"),
        (record(0x8002, b"\0\1"), "bad request"),
        (record(0x8002, b"\0\x63"), "error 99"),
        (record(0x8063), "critical record 99"),
        (PROTOCOL + AEAD + COOKIE + record(6, b"evil\nname") + END, "names 'evil\\\\nname'"),
        (PROTOCOL + AEAD + COOKIE + record(6) + END, "names ''"),
    ],
)
def test_a_useless_reply_has_its_reason(reply: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_reply(reply)
