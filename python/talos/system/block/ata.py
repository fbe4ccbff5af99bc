"""What ATA disks and drives answer to IDENTIFY."""

import fcntl
import os
from pathlib import Path

IDENTIFY_BYTES = 512
_HDIO_GET_IDENTITY = 0x030D  # <linux/hdreg.h>


def identify(node: str, dev: Path = Path("/dev")) -> bytes:
    """The answer that the kernel got when it found the disk; empty when it is no ATA disk."""
    answer = bytearray(IDENTIFY_BYTES)
    try:
        descriptor = os.open(dev / node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        fcntl.ioctl(descriptor, _HDIO_GET_IDENTITY, answer)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return bytes(answer)
