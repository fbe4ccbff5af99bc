"""EFI programs of a few bytes."""

import struct
from collections.abc import Mapping, Sequence

_ALIGNMENT = 512
_OPTIONAL = 240
"""Bytes of the optional header with all data directories."""
_ROOM = 4
"""Sections that may be added; systemd's stub has room for more."""


def make_program(sections: Mapping[str, bytes] | Sequence[tuple[str, bytes]], *, room: int = 0) -> bytes:
    """A program (PE32+) with these sections, and ``room`` for so many more; it does nothing."""
    rows = list(sections.items() if isinstance(sections, Mapping) else sections)
    head = 64 + 4 + 20 + _OPTIONAL + 40 * (len(rows) + room)
    start = -(-head // _ALIGNMENT) * _ALIGNMENT
    table, content, address = b"", b"", 0x1000
    for name, data in rows:
        stored = data.ljust(-(-len(data) // _ALIGNMENT) * _ALIGNMENT, b"\0")
        place = start + len(content)
        fields = (name.encode(), len(data), address, len(stored), place, 0, 0, 0, 0, 0x40000040)
        table += struct.pack("<8sIIIIIIHHI", *fields)
        content += stored
        address += 0x1000 * (1 + len(data) // 0x1000)
    optional = struct.pack("<HBBIIIII", 0x20B, 1, 0, 0, len(content), 0, 0x1000, 0x1000)
    optional += struct.pack("<QII", 0x10000, 0x1000, _ALIGNMENT) + bytes(16)
    optional += struct.pack("<IIIHH", address, start, 0, 10, 0) + bytes(32) + struct.pack("<II", 0, 16)
    coff = struct.pack("<HHIIIHH", 0x8664, len(rows), 0, 0, 0, _OPTIONAL, 0x22E)
    dos = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64)
    header = dos + b"PE\0\0" + coff + optional.ljust(_OPTIONAL, b"\0") + table
    return header.ljust(start, b"\0") + content


def make_uki(version: str, initramfs: bytes = b"0707") -> bytes:
    """A UKI, without a kernel."""
    release = f"NAME=Talos\nID=talos\nVERSION_ID={version}\n".encode()
    return make_program({".osrel": release, ".initrd": initramfs}, room=_ROOM)
