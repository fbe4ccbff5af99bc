"""Whether QEMU can read and write disks by io_uring, which some hosts keep from their programs."""

import ctypes
import os

_SETUP = 425
"""The number of the system call io_uring_setup, on every architecture."""
_ENTRIES = 128
"""As many as QEMU has."""
_PARAMETERS = 120
"""Bytes of ``struct io_uring_params``."""


def has_io_uring() -> bool:
    """Make a ring as QEMU does, and close it."""
    parameters = ctypes.create_string_buffer(_PARAMETERS)
    descriptor: int = ctypes.CDLL(None).syscall(_SETUP, _ENTRIES, parameters)
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True
