"""A boot entry of UEFI firmware for a file on a disk's partition: a variable ``Boot####``.

UEFI specification 2.10: sections 3.1.3 (EFI_LOAD_OPTION), 10.3 (device paths). A path that begins with the
partition is one that firmware completes with the way to the disk (3.1.2).
"""

import struct
from dataclasses import dataclass
from uuid import UUID

from talos.system.block.gpt import list_rows
from talos.system.block.layout import ALIGNMENT, Placed
from talos.system.block.target import Target
from talos.system.errors import UserError

_OPTION = struct.Struct("<IH")
"""Attributes, and bytes of the device path; the description is between."""
_ACTIVE = 0x1
_NODE = struct.Struct("<BBH")
"""Of a device path: type, subtype, and bytes with these."""
_DRIVE = struct.Struct("<IQQ16sBB")
_MEDIA, _HARD_DRIVE, _FILE = 4, 1, 4
_GPT, _GUID = 2, 2
_END = _NODE.pack(0x7F, 0xFF, _NODE.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition as firmware finds it. ``start`` and ``size`` in sectors of the disk."""

    number: int
    start: int
    size: int
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class BootEntry:
    """An entry. ``path`` is the file's, with slashes, from the root of the partition."""

    description: str
    partition: Partition
    path: str


def format_entry(entry: BootEntry) -> bytes:
    """The variable's value."""
    place = entry.partition
    drive = _DRIVE.pack(place.number, place.start, place.size, place.id.bytes_le, _GPT, _GUID)
    path = _make_node(_HARD_DRIVE, drive)
    path += _make_node(_FILE, _encode(entry.path.replace("/", "\\"))) + _END
    return _OPTION.pack(_ACTIVE, len(path)) + _encode(entry.description) + path


def parse_entry(data: bytes) -> BootEntry:
    """An entry for a file on a partition; ValueError for any other, and for what is none."""
    try:
        _, length = _OPTION.unpack_from(data)
        description, rest = _decode(data[_OPTION.size :])
        path = rest[:length]
        drive, path = _split_node(path, _HARD_DRIVE)
        number, start, size, unique, _, kind = _DRIVE.unpack(drive)
        file, path = _split_node(path, _FILE)
    except struct.error as error:
        raise ValueError(str(error)) from None
    if kind != _GUID or path != _END:
        raise ValueError("not a file on a partition with an id")
    return BootEntry(
        description=description,
        partition=Partition(number=number, start=start, size=size, id=UUID(bytes_le=unique)),
        path=_decode(file)[0].replace("\\", "/"),
    )


def read_partition(target: Target, placed: Placed) -> Partition:
    """The partition as the disk's table has it; UserError when it is not where the installer puts it."""
    with target.open() as disk:
        table = disk.read(ALIGNMENT)
    for row in list_rows(table, target.sector_size):
        if row.number == placed.number and row.start * target.sector_size == placed.start:
            return Partition(number=row.number, start=row.start, size=row.size, id=row.id)
    raise UserError(f"the partition table has no {placed.area.label} at its place", where=target.path)


def _make_node(subtype: int, data: bytes) -> bytes:
    return _NODE.pack(_MEDIA, subtype, _NODE.size + len(data)) + data


def _split_node(path: bytes, subtype: int) -> tuple[bytes, bytes]:
    """The data of the first node, and what follows it."""
    *kind, length = _NODE.unpack_from(path)
    if kind != [_MEDIA, subtype] or not _NODE.size <= length <= len(path):
        raise ValueError("another kind of device path")
    return path[_NODE.size : length], path[length:]


def _encode(text: str) -> bytes:
    return f"{text}\0".encode("utf-16-le")


def _decode(data: bytes) -> tuple[str, bytes]:
    """The text that data begins with, and what follows its end."""
    for place in range(0, len(data) - 1, 2):
        if data[place : place + 2] == b"\0\0":
            return data[:place].decode("utf-16-le", "replace"), data[place + 2 :]
    raise ValueError("a text without an end")
