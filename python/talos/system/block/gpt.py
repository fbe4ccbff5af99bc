"""A GUID partition table as it lies on a disk, for what neither the kernel nor libblkid shows.

UEFI specification 2.10, section 5.3. The checksums are not compared: what decides about a disk is read by
``sfdisk`` and libblkid.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

SECTOR_SIZES = (512, 4096)
"""Bytes of a sector: the table begins with the second one."""
_HEADER = struct.Struct("<8s64xQII")
"""Its mark, the first sector of its entries, their number, bytes of each."""
_MARK = b"EFI PART"
_ENTRY = struct.Struct("<16s16sQQ8x72s")
"""A partition's type and id, its first and last sector, its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A partition. ``start`` and ``size`` in sectors."""

    number: int
    start: int
    size: int
    id: UUID
    label: str


def list_rows(data: bytes, sector_size: int) -> Iterator[Row]:
    """The partitions in the first bytes of a disk; none where there is no table, or not within them."""
    if len(data) < sector_size + _HEADER.size:
        return
    mark, first, count, length = _HEADER.unpack_from(data, sector_size)
    if mark != _MARK or length < _ENTRY.size:
        return
    for index in range(count):
        place = first * sector_size + index * length
        if place + _ENTRY.size > len(data):
            return
        type_id, unique, start, last, label = _ENTRY.unpack_from(data, place)
        if any(type_id):
            yield Row(
                number=index + 1,
                start=start,
                size=last - start + 1,
                id=UUID(bytes_le=unique),
                label=label.decode("utf-16-le", "replace").partition("\0")[0],
            )
