"""A version as ``talosctl version`` shows it."""

from collections.abc import Iterable


def format_version(tag: str, sha: str, built: str, language: str, platform: str) -> str:
    """The lines about one program."""
    return format_rows(
        (("Tag", tag), ("SHA", sha), ("Built", built), ("Go version", language), ("OS/Arch", platform))
    )


def format_rows(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values, a line each."""
    return "".join(f"\t{name + ':':<12} {value}".rstrip() + "\n" for name, value in rows)
