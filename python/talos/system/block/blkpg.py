"""Reports a partition's change to the kernel on a disk that is in use, where it won't read the table again.

``sfdisk`` writes the table and leaves this undone when a partition of the disk is mounted. Numbers and
structures are those of the kernel's ``include/uapi/linux/blkpg.h``.
"""

import ctypes
import fcntl
import os
import stat
from pathlib import Path

BLKPG = 0x1269
_ADD = 1
_RESIZE = 3
_UNIT = 512
"""Bytes that sysfs counts in, whatever the disk's sectors are."""
_SYSFS = Path("/sys/class/block")


class _Partition(ctypes.Structure):
    _fields_ = (
        ("start", ctypes.c_longlong),
        ("length", ctypes.c_longlong),
        ("number", ctypes.c_int),
        ("device_name", ctypes.c_char * 64),
        ("volume_name", ctypes.c_char * 64),
    )


class _Argument(ctypes.Structure):
    _fields_ = (
        ("operation", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("length", ctypes.c_int),
        ("data", ctypes.c_void_p),
    )


def notify_kernel(disk: str, device: str, number: int, start: int, size: int) -> None:
    """Give the kernel a partition of a disk as it is in the table. In bytes.

    ``device`` is the partition's. Nothing is done for an image file, or when the kernel has it already.
    OSError.
    """
    if not stat.S_ISBLK(Path(disk).stat().st_mode):
        return
    try:
        known = int((_SYSFS / Path(device).name / "size").read_text(encoding="ascii")) * _UNIT
    except FileNotFoundError:
        known = 0
    if known == size:
        return
    partition = _Partition(start=start, length=size, number=number)
    argument = _Argument(
        operation=_RESIZE if known else _ADD,
        length=ctypes.sizeof(partition),
        data=ctypes.cast(ctypes.pointer(partition), ctypes.c_void_p),
    )
    descriptor = os.open(disk, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, BLKPG, argument)
    finally:
        os.close(descriptor)
