"""Discard of a filesystem's unused blocks."""

import fcntl
import os
import struct

_FITRIM = 0xC0185879
"""``_IOWR('X', 121, struct fstrim_range)``, include/uapi/linux/fs.h."""
_RANGE = struct.Struct("QQQ")
"""From where, how far, the least run of free blocks; to the second the kernel writes what it discarded."""


def trim_filesystem(target: str) -> int:
    """Discard all that is unused in a mounted filesystem; the bytes. OSError: EOPNOTSUPP if a disk can't."""
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        done = fcntl.ioctl(descriptor, _FITRIM, _RANGE.pack(0, 2**64 - 1, 0))
        return int(_RANGE.unpack(done)[1])
    finally:
        os.close(descriptor)
