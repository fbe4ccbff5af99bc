"""What each member of a mirror has of a file: a boot loader writes one member, unnoticed by the array.

A read through the array may be of any member. Numbers and structures are those of the kernel's
``include/uapi/linux/fiemap.h``.
"""

import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from talos.system.block.md import read_arrays
from talos.system.block.sysfs import Sysfs
from talos.system.block.wipe import drop_cache

FS_IOC_FIEMAP = 0xC020660B
_SYNC = 0x1
_MAX_EXTENTS = 16
_UNUSABLE = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400 | 0x800
"""Flags of an extent that is not on the disk as it is read, such as an unwritten one."""
_REQUEST = struct.Struct("=QQIIII")
"""First byte, number of bytes, flags, extents found, room for extents, reserved."""
_EXTENT = struct.Struct("=QQQ16xI12x")
"""Place in the file, place in the filesystem's device, number of bytes, flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A part of a file, in bytes. ``place`` is from the start of the filesystem's device."""

    place: int
    size: int


def read_copies(disk: str, start: int, file: Path, sysfs: Sysfs | None = None) -> Sequence[bytes]:
    """A file as each member of an array has it, and once as it is where the disk is no array. OSError.

    ``start`` is that of its partition, in bytes. Members that can't be read are left out: none may be left.
    """
    array = next((array for array in read_arrays(sysfs or Sysfs()) if array.device == disk), None)
    if array is None:
        return [file.read_bytes()]
    extents = list_extents(file)
    size = file.stat().st_size
    found: list[bytes] = []
    for member in array.members if extents else ():
        if not member.is_in_sync:
            continue
        try:
            found.append(_read(member.device, start + member.offset, extents)[:size])
        except OSError:  # md finds that out, too
            continue
    return found


def list_extents(file: Path) -> Sequence[Extent]:
    """Where a file is; none where that can't be found out, or it is not there as it is read."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    buffer = bytearray(_REQUEST.size + _MAX_EXTENTS * _EXTENT.size)
    _REQUEST.pack_into(buffer, 0, 0, (1 << 64) - 1, _SYNC, 0, _MAX_EXTENTS, 0)
    try:
        fcntl.ioctl(descriptor, FS_IOC_FIEMAP, buffer)
        size = os.fstat(descriptor).st_size
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    count = min(_REQUEST.unpack_from(buffer)[3], _MAX_EXTENTS)
    found: list[Extent] = []
    expected = 0
    for index in range(count):
        logical, place, length, flags = _EXTENT.unpack_from(buffer, _REQUEST.size + index * _EXTENT.size)
        if flags & _UNUSABLE or logical != expected:
            return ()
        found.append(Extent(place=place, size=length))
        expected += length
    return found if expected >= size else ()


def _read(device: str, offset: int, extents: Sequence[Extent]) -> bytes:
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        drop_cache(descriptor)
        return b"".join(os.pread(descriptor, extent.size, offset + extent.place) for extent in extents)
    finally:
        os.close(descriptor)
