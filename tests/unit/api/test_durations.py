"""Durations as Go has them."""

import pytest

from talos.api.durations import format_duration, format_nanoseconds, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m0s", 60),
        ("1h2m3.5s", 3723.5),
        ("300ms", 0.3),
        ("1.5h", 5400),
        ("10µs", 1e-5),
        ("10us", 1e-5),
        ("0", 0),
        ("+0", 0),
        ("-5s", -5),
        ("+5s", 5),
        ("8760h0m0s", 31536000),
        (".5s", 0.5),
        ("5.s", 5),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "5x", "1m5", "s", "--5s", "1h-2m", "1s ", "٣s", "1e3s", ".s", "1s" * 40]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_a_duration_beyond_64_bits_of_nanoseconds() -> None:
    assert parse_duration("2562047h") == 2562047 * 3600
    with pytest.raises(ValueError, match="at most 292 years"):
        parse_duration("2562048h")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (999_999, "999.999µs"),
        (250_000_000, "250ms"),
        (1_000_000_001, "1.000000001s"),
        (10 * 10**9, "10s"),
        (60 * 10**9, "1m0s"),
        (-90 * 10**9, "-1m30s"),
        (3_723_500_000_000, "1h2m3.5s"),
        (36_000 * 10**9, "10h0m0s"),
    ],
)
def test_durations_are_written(nanoseconds: int, text: str) -> None:
    assert format_nanoseconds(nanoseconds) == text
    assert format_duration(nanoseconds / 1e9) == text
    assert parse_duration(text) == pytest.approx(nanoseconds / 1e9)
