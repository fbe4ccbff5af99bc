"""Decimal numbers in texts from outside."""

MAX_DIGITS = 20
"""Digits of the longest number that is read: 64 bits have so many."""


def parse_decimal(text: str, minimum: int, maximum: int) -> int:
    """A number of ASCII digits alone; ValueError for what else ``int`` reads, and for one out of range."""
    if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS and minimum <= int(text) <= maximum:
        return int(text)
    raise ValueError(f"{text[: MAX_DIGITS + 1]!r} is not between {minimum} and {maximum}")
