"""``/proc/<pid>/mounts``: one line per mount."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount: its source, where it is, its type and options."""

    source: str
    target: str
    type: str
    options: tuple[str, ...]


def parse_mounts(text: str) -> list[Mount]:
    """The mounts in the text of ``/proc/mounts``, in its order.

    Other ends of lines, by which Python would split, the kernel writes in names as they are.
    """
    found: list[Mount] = []
    for line in text.split("\n"):
        fields = line.split(" ")
        if len(fields) >= 4:
            source, target, kind, options = (_unescape(word) for word in fields[:4])
            found.append(Mount(source=source, target=target, type=kind, options=tuple(options.split(","))))
    return found


def _unescape(word: str) -> str:
    """The kernel writes space, tab, newline, backslash and # as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)
