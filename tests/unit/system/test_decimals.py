"""Decimal numbers in texts from outside."""

import pytest

from talos.system.decimals import MAX_DIGITS, parse_decimal


def test_a_number_in_range_is_read() -> None:
    assert [parse_decimal(text, 1, 0xFFFF) for text in ("1", "0080", "65535")] == [1, 80, 65535]


@pytest.mark.parametrize("text", ["", "0", "65536", "-1", "+1", " 1", "1_0", "²", "٣", "0x1", "1" * 5000])
def test_any_other_text_is_refused_with_its_range(text: str) -> None:
    with pytest.raises(ValueError, match="is not between 1 and 65535") as refused:
        parse_decimal(text, 1, 0xFFFF)
    assert len(str(refused.value)) < MAX_DIGITS + 40
