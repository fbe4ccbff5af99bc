"""Numbers of bytes as people write and read them, and as the API's ``pretty_size`` fields hold them."""

import re
from collections.abc import Sequence

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


SIZE_LIMIT = 2**64
"""Sizes are counted in 64 bits."""

_SIZE = re.compile(r"([\d,]*\d[\d,]*(?:\.\d*)?|\.\d+)\s*([kmgtpe]i?)?(b?)\s*", re.ASCII | re.IGNORECASE)
_STEPS = "kmgtpe"


def parse_size(text: str, *, bare: int = 1) -> int:
    """Bytes of ``10GiB`` (powers of 1024), ``10GB`` (powers of 1000); ``bare`` is the unit of a bare number.

    ValueError when the text is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size")
    number, unit = float(found.group(1).replace(",", "")), (found.group(2) or "").lower()
    if not unit:
        return int(number * (1 if found.group(3) else bare))
    return int(number * (1024 if unit.endswith("i") else 1000) ** (_STEPS.index(unit[0]) + 1))


def format_size(count: int) -> str:
    """``10 GiB``, ``9.8 GiB``, ``512 B``: powers of 1024."""
    size, step = _scale(count, 1024, len(_BINARY))
    return f"{size:.1f}".removesuffix(".0") + f" {_BINARY[step]}"


def format_count(count: int) -> str:
    """``3.1M``, ``12.4K``, ``512``: powers of 1000, cut after one decimal."""
    number, step = _scale(count, 1000, len(_STEPS) + 1)
    if not step:
        return str(count)
    return f"{int(number * 10) / 10:.1f}".removesuffix(".0") + _STEPS[step - 1].upper()


def format_pretty_size(count: int) -> str:
    """``10 GB``, ``4.1 kB``, ``512 B``: powers of 1000, as upstream's ``pretty_size`` has them."""
    return _round(count, 1000, _DECIMAL)


def format_rounded_size(count: int) -> str:
    """``10 GiB``, ``4.1 KiB``, ``512 B``: as :func:`format_pretty_size`, but powers of 1024."""
    return _round(count, 1024, _BINARY)


def _round(count: int, base: int, units: Sequence[str]) -> str:
    size, step = _scale(count, base, len(units))
    rounded = int(size * 10 + 0.5) / 10
    text = f"{rounded:.1f}" if step and rounded < 10 else f"{rounded:.0f}"
    return f"{text} {units[step]}"


def _scale(count: int, base: int, steps: int) -> tuple[float, int]:
    size, step = float(count), 0
    while size >= base and step < steps - 1:
        size /= base
        step += 1
    return size, step
