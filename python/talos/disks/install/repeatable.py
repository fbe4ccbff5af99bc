"""Taking chance and time out of a filesystem that was just made, so that two builds give the same bytes.

``mkfs.xfs`` fills new inodes with the time of day and random generations, and has no option against it before
version 6.17. Offsets are those of ``struct xfs_dinode`` in the kernel's ``fs/xfs/libxfs/xfs_format.h``.
"""

import os
import struct
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

INODE = 512
"""Bytes of an inode, as ``mkfs.xfs`` makes them."""
EPOCH = 1
"""Seconds since 1970 that every file gets."""
CHUNK = 1 << 20
_MAGIC = b"IN"
_TIMES = (32, 40, 48, 144)
"""Access, modification, change, birth."""
_BIG_TIME = struct.Struct(">Q")
"""Nanoseconds since :data:`_BIG_EPOCH`."""
_BIG_EPOCH = 1 << 31
"""Seconds before 1970: the earliest time that the old format can hold."""
_GENERATION = slice(92, 96)
_CHECKSUM = slice(100, 104)
_UUID = slice(160, 176)
_POLYNOMIAL = 0x82F63B78
"""CRC-32C (Castagnoli), reflected."""


def make_xfs_repeatable(image: Path, uuid: UUID) -> None:
    """Give all inodes of a fresh XFS the same times and generation."""
    with image.open("r+b", buffering=0) as file:
        for offset, chunk in _read_data(file):
            for place in range(0, len(chunk), INODE):
                inode = chunk[place : place + INODE]
                if _is_inode(inode, uuid):
                    file.seek(offset + place)
                    file.write(_settle(inode))


def copy_sparse(source: Path, target: BinaryIO, offset: int) -> None:
    """Copy a file to a place in another one, which holds zeros there; blocks of zeros stay holes."""
    zeros = bytes(4096)
    with source.open("rb", buffering=0) as file:
        for start, chunk in _read_data(file):
            for place in range(0, len(chunk), len(zeros)):
                block = chunk[place : place + len(zeros)]
                if block != zeros[: len(block)]:
                    target.seek(offset + start + place)
                    target.write(block)


def _read_data(file: FileIO) -> Iterator[tuple[int, bytes]]:
    """The parts of a sparse file that are no holes, with their offsets; a buffer would be confused."""
    size = os.fstat(file.fileno()).st_size
    offset = 0
    while offset < size:
        try:
            begin = os.lseek(file.fileno(), offset, os.SEEK_DATA) // CHUNK * CHUNK
        except OSError:  # ENXIO: only a hole is left
            return
        offset = max(begin, offset)
        file.seek(offset)
        chunk = file.read(CHUNK)
        yield offset, chunk
        offset += len(chunk)


def _is_inode(data: bytes, uuid: UUID) -> bool:
    if data[:2] != _MAGIC or data[_UUID] != uuid.bytes:
        return False
    return data[_CHECKSUM] == _checksum(data)


def _settle(data: bytes) -> bytes:
    inode = bytearray(data)
    for time in _TIMES:
        _BIG_TIME.pack_into(inode, time, (EPOCH + _BIG_EPOCH) * 1_000_000_000)
    inode[_GENERATION] = bytes(4)
    inode[_CHECKSUM] = _checksum(bytes(inode))
    return bytes(inode)


def _checksum(inode: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in inode[: _CHECKSUM.start] + bytes(4) + inode[_CHECKSUM.stop :]:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def _make_table() -> tuple[int, ...]:
    table: list[int] = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _make_table()
