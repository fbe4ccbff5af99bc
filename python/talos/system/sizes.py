"""Numbers of bytes for people, in texts, and what the API's ``pretty_size`` fields hold."""

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def format_size(count: int) -> str:
    """``10 GiB``, ``9.8 GiB``, ``512 B``: powers of 1024."""
    size, step = _scale(count, 1024, len(_BINARY))
    return f"{size:.1f}".removesuffix(".0") + f" {_BINARY[step]}"


def format_pretty_size(count: int) -> str:
    """``10 GB``, ``4.1 kB``, ``512 B``: powers of 1000, as upstream's ``pretty_size`` has them."""
    size, step = _scale(count, 1000, len(_DECIMAL))
    rounded = int(size * 10 + 0.5) / 10
    text = f"{rounded:.1f}" if step and rounded < 10 else f"{rounded:.0f}"
    return f"{text} {_DECIMAL[step]}"


def _scale(count: int, base: int, steps: int) -> tuple[float, int]:
    size, step = float(count), 0
    while size >= base and step < steps - 1:
        size /= base
        step += 1
    return size, step
