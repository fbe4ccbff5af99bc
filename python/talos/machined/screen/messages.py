"""The virtual terminal with the kernel's messages; imports next to nothing, for a PID 1 that fails."""

import fcntl
import os
from contextlib import suppress

MESSAGES = 1
"""Its number."""
VT_ACTIVATE = 0x5606  # linux/vt.h


def show_messages(number: int = MESSAGES) -> None:
    """Switch to where the kernel's messages are; for the last words of a machine that fails."""
    with suppress(OSError):
        fd = os.open("/dev/tty0", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(fd, VT_ACTIVATE, number)
        finally:
            os.close(fd)
