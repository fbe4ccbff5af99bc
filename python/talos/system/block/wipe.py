"""Erasing: the quick way, after which nothing is recognised any more, and the thorough one.

ioctl numbers are those of the kernel's ``include/uapi/linux/fs.h``.
"""

import enum
import fcntl
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from talos.system.block.blkid import Partition, probe
from talos.system.block.luks_header import measure_keys

EDGE = 1 << 20
"""Bytes erased at each end by the quick way; every signature that is known is within them."""
STEP = 1 << 30
"""Bytes erased by one call to the kernel: so much goes on after one has given up."""
BLKDISCARD = 0x1277
BLKZEROOUT = 0x127F
BLKFLSBUF = 0x1261
BLKRRPART = 0x125F
_RANGE = struct.Struct("=QQ")
_CHUNK = 1 << 22


class WipeMethod(enum.IntEnum):
    """How to erase; the numbers are those of ``BlockDeviceWipeDescriptor.Method``."""

    FAST = 0
    ZEROES = 1


def discard(descriptor: int, start: int, size: int) -> None:
    """Let a disk forget these bytes, if it can; they need not read as zeros then."""
    with suppress(OSError):
        fcntl.ioctl(descriptor, BLKDISCARD, _RANGE.pack(start, size))


def wipe_device(path: str, method: WipeMethod, *, report: Callable[[int, int], None] | None = None) -> None:
    """Erase a disk or partition that is not in use; OSError, EBUSY when it is.

    ``report`` gets how many bytes of how many are erased.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        destroy_keys(descriptor, 0, size)
        for part in _find_partitions(path):
            destroy_keys(descriptor, part.start, part.size)
        if method is WipeMethod.FAST:
            # Discarded blocks need not read as zeros, so this comes first.
            discard(descriptor, 0, size)
            wipe_edges(descriptor, 0, size)
        else:
            for offset in range(0, size, STEP):
                zero(descriptor, offset, min(STEP, size - offset))
                if report:
                    report(min(offset + STEP, size), size)
        os.fsync(descriptor)
        with suppress(OSError):  # a partition has no partitions
            fcntl.ioctl(descriptor, BLKRRPART)
    finally:
        os.close(descriptor)


def _find_partitions(path: str) -> tuple[Partition, ...]:
    try:
        return probe(Path(path)).partitions
    except OSError:  # unreadable, or ambiguous: it is erased all the same
        return ()


def wipe_edges(descriptor: int, offset: int, size: int) -> None:
    """Zero both ends of a part of a disk, the key slots of an encrypted part first. In bytes."""
    destroy_keys(descriptor, offset, size)
    edge = min(EDGE, size)
    zero(descriptor, offset, edge)
    zero(descriptor, offset + size - edge, edge)


def make_blank(device: str) -> None:
    """Erase both ends of a device that is not in use, on the disk itself when this returns. OSError."""
    descriptor = os.open(device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    try:
        wipe_edges(descriptor, 0, os.lseek(descriptor, 0, os.SEEK_END))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def destroy_keys(descriptor: int, offset: int, size: int) -> None:
    """Zero the headers and key slots of an encrypted part of a disk: without them its data are noise."""
    keys = measure_keys(descriptor, offset)
    if keys:
        zero(descriptor, offset, min(keys, size))
        os.fsync(descriptor)


def zero(descriptor: int, offset: int, size: int) -> None:
    """Fill a part of a disk with zeros, by the disk itself where it can."""
    try:
        fcntl.ioctl(descriptor, BLKZEROOUT, _RANGE.pack(offset, size))
    except OSError:  # a file, or a disk with other sectors
        _write_zeros(descriptor, offset, size)


def _write_zeros(descriptor: int, offset: int, size: int) -> None:
    zeros = bytes(min(_CHUNK, size))
    end = offset + size
    while offset < end:
        offset += os.pwrite(descriptor, zeros[: end - offset], offset)


def drop_cache(descriptor: int) -> None:
    """Forget what is in memory of a disk, so that the next read is one of the disk."""
    with suppress(OSError):  # a file
        fcntl.ioctl(descriptor, BLKFLSBUF)
