"""Texts of flag values, read and written as Go programs do."""

from collections.abc import Sequence

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(text: str) -> bool:
    """Whether a text means true; only the texts that Go's ParseBool has are taken."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f'"{text}" is neither true nor false')


def parse_int(text: str, low: int, high: int) -> int:
    """A whole number, decimal or with the prefix 0x, 0o, 0b, between two bounds."""
    try:
        value = int(text, 0)
    except ValueError:
        raise ValueError(f'"{text}" is not a whole number') from None
    if not low <= value <= high:
        raise ValueError(f"{value} is not between {low} and {high}")
    return value


def parse_words(text: str) -> Sequence[str]:
    """The values of a comma-separated text; a value may be quoted as in CSV."""
    if not text:
        return ()
    if '"' not in text:
        return text.split(",")
    import csv

    return next(csv.reader([text], strict=True))
