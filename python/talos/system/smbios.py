"""The firmware's table of the machine's parts: structures of SMBIOS, as the kernel shows them.

https://www.dmtf.org/standards/smbios, DSP0134, chapters 6 and 7.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

TABLE = "/sys/firmware/dmi/tables/DMI"
PROCESSOR, MEMORY_DEVICE, END = 4, 17, 127
MAX_STRUCTURES = 4096
_HEADER = struct.Struct("<BBH")
_PLACEHOLDER = "to be filled by o.e.m."


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """One part: its type, its fields with the header, and its texts."""

    type: int
    data: bytes
    texts: tuple[str, ...]

    def number(self, offset: int, size: int) -> int:
        """A field of so many bytes; 0 where the structure is of an older version and ends before."""
        return int.from_bytes(self.data[offset : offset + size], "little")

    def text(self, offset: int) -> str:
        """The text that a field names by its number; empty without one."""
        number = self.number(offset, 1)
        return self.texts[number - 1] if 0 < number <= len(self.texts) else ""


def parse_structures(table: bytes) -> Iterator[Structure]:
    """The structures of a table in their order; what is cut off or malformed ends it."""
    place = 0
    for _ in range(MAX_STRUCTURES):
        if place + _HEADER.size > len(table):
            return
        kind, length, _handle = _HEADER.unpack_from(table, place)
        texts_end = table.find(b"\0\0", place + length)
        if length < _HEADER.size or texts_end < 0:
            return
        texts = table[place + length : texts_end].split(b"\0")
        found = tuple(_clean(text) for text in texts) if texts != [b""] else ()
        yield Structure(type=kind, data=table[place : place + length], texts=found)
        if kind == END:
            return
        place = texts_end + 2


def _clean(data: bytes) -> str:
    """A text without what firmware leaves as a placeholder; empty when it is no UTF-8, as upstream."""
    try:
        text = data.decode().strip()
    except UnicodeDecodeError:
        return ""
    return "" if text.lower() == _PLACEHOLDER else text
