"""Sizes as people write them."""

import pytest

from talos.system.sizes import format_count, format_rounded_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("10GiB", 10 << 30),
        ("10 gib", 10 << 30),
        ("500MB", 500_000_000),
        ("500m", 500_000_000),
        ("1.5Ki", 1536),
        ("1,024", 1024),
        ("2EiB", 2 << 60),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_bare_number_has_the_given_unit() -> None:
    assert parse_size("512", bare=1 << 20) == 512 << 20
    assert parse_size("512B", bare=1 << 20) == 512
    assert parse_size("1k", bare=1 << 20) == 1000


@pytest.mark.parametrize("text", ["", "much", "-1", "1 GiB x", "GiB", "1e3", "0x10", "١٢"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (1024, "1.0 KiB"), (6 << 30, "6.0 GiB"), (960 << 20, "960 MiB")],
)
def test_rounded_sizes(count: int, text: str) -> None:
    assert format_rounded_size(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1K"), (12_480, "12.4K"), (3_145_728, "3.1M")]
)
def test_counts_of_inodes(count: int, text: str) -> None:
    assert format_count(count) == text
