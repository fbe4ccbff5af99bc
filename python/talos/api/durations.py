"""Durations as Go's programs read and write them: ``1h30m``, ``1.5s``, ``150ms``."""

import re

MAX_TEXT = 64
"""Characters that are read at most."""
MAX_SECONDS = 2**63 / 1e9
"""Go counts nanoseconds in 64 bits."""

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART, re.ASCII)
_DURATION = re.compile(rf"[-+]?(?:(?:{_PART})+|0)", re.ASCII)
_NANOSECONDS = 10**9


def parse_duration(text: str) -> float:
    """The seconds of a duration; ValueError when the text is not a duration, or is out of Go's range."""
    if len(text) > MAX_TEXT or not _DURATION.fullmatch(text):
        raise ValueError(f'"{text[:MAX_TEXT]}" is not a duration such as 30s, 5m or 1h30m')
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(text))
    if seconds > MAX_SECONDS:
        raise ValueError("at most 292 years")
    return -seconds if text.startswith("-") else seconds


def format_nanoseconds(nanoseconds: int) -> str:
    """``1h2m3.5s``, ``150ms``, ``0s``."""
    sign, total = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if total < _NANOSECONDS:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000)):
            if total >= size:
                return f"{sign}{_format_decimal(total, size)}{unit}"
        return f"{sign}{total}ns" if total else "0s"
    minutes, rest = divmod(total, 60 * _NANOSECONDS)
    hours, minutes = divmod(minutes, 60)
    text = f"{_format_decimal(rest, _NANOSECONDS)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def format_duration(seconds: float) -> str:
    """The text of so many seconds, to the nanosecond."""
    return format_nanoseconds(round(seconds * _NANOSECONDS))


def _format_decimal(number: int, size: int) -> str:
    whole, rest = divmod(number, size)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}}".rstrip("0").rstrip(".")
