"""Whether a disk rotates."""

import fcntl
import os
import struct

_BLKROTATIONAL = 0x127E
"""``_IO(0x12, 126)``, include/uapi/linux/fs.h; its answer is an unsigned short."""


def is_rotational(device: str) -> bool:
    """Of a disk, a partition or a mapped device. OSError for anything else."""
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        (answer,) = struct.unpack("H", fcntl.ioctl(descriptor, _BLKROTATIONAL, bytes(2)))
        return bool(answer)
    finally:
        os.close(descriptor)
