"""Texts of flag values, read and written as Go programs do."""

import re
from collections.abc import Sequence

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def parse_bool(text: str) -> bool:
    """Whether a text means true; only the words Go knows are taken."""
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


def parse_duration(text: str) -> float:
    """Seconds of a text such as ``1m30s``, ``1.5h`` or ``0``."""
    unsigned = text[1:] if text[:1] in {"+", "-"} else text
    if unsigned == "0":
        return 0.0
    end = 0
    seconds = 0.0
    for part in _PART.finditer(unsigned):
        if part.start() != end:
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    if not unsigned or end != len(unsigned):
        raise ValueError(f'"{text}" is not a duration such as 30s, 5m or 1h30m')
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """The text Go prints for a duration of whole milliseconds: ``1h2m3s``, ``1.5s``, ``0s``."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if 0 < seconds < 1:
        return f"{round(seconds * 1000, 3):g}ms"
    whole, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(whole), 60)
    tail = f"{round(rest, 3):g}s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def parse_words(text: str) -> Sequence[str]:
    """The values of a comma-separated text; a value may be quoted as in CSV."""
    if not text:
        return ()
    if '"' not in text:
        return text.split(",")
    import csv

    return next(csv.reader([text], strict=True))
