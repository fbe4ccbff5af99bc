"""``/proc/meminfo``."""

import re

_LIMITED = frozenset({"MemTotal", "MemFree", "MemAvailable"})


def parse_meminfo(text: str) -> dict[str, int]:
    """The numbers of ``/proc/meminfo`` by name, in kB (pages for ``HugePages_*``)."""
    values: dict[str, int] = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        fields = rest.split()
        if fields:
            values[key] = int(fields[0])
    return values


def make_plain_name(key: str) -> str:
    """A key in lower case with letters and digits only, ``Active(anon)`` as ``activeanon``."""
    return re.sub(r"[^a-z0-9]", "", key.lower())


def limit_meminfo(text: str, limit: int) -> str:
    """``/proc/meminfo`` of a machine with at most ``limit`` bytes of memory, and without swap."""
    lines: list[str] = []
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number = value.split()[0] if value.split() else ""
        if number.isdigit() and name in _LIMITED:
            line = f"{name}:{min(int(number), limit // 1024):>12} kB"
        elif number.isdigit() and name.startswith("Swap"):
            line = f"{name}:{0:>12} kB"
        lines.append(line)
    return "\n".join(lines) + "\n"
