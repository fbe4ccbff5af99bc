"""``/proc/meminfo``."""

import re


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
