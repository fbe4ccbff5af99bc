"""Loop devices: a file as a disk, without losetup."""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# <linux/loop.h>
_LOOP_CLR_FD = 0x4C01
_LOOP_CONFIGURE = 0x4C0A
_LOOP_CTL_GET_FREE = 0x4C82
_FLAG_READ_ONLY = 1
_FLAG_AUTOCLEAR = 4
# How often to look for another free device when another process took the one found.
_ATTEMPTS = 50
# struct loop_config up to lo_flags: fd, block size, then loop_info64's device, inode, rdevice,
# offset, size limit, number, three encryption fields, flags; the rest is zero.
_CONFIG_HEAD = struct.Struct("=II5Q3II")
_CONFIG_SIZE = 4 + 4 + 232 + 64


class LoopDevice:
    """A file attached to a loop device for as long as this object or a mount of it is there.

    The kernel detaches it by itself after the last user (AUTOCLEAR), so a crash leaves nothing behind.
    """

    def __init__(self, file: Path, *, read_only: bool) -> None:
        mode = os.O_RDONLY if read_only else os.O_RDWR
        backing = os.open(file, mode | os.O_CLOEXEC)
        try:
            self.path, self._descriptor = _attach(backing, mode, read_only=read_only)
        finally:
            os.close(backing)

    def close(self) -> None:
        """Let go of the device; mounts of it keep it."""
        os.close(self._descriptor)


def _attach(backing: int, mode: int, *, read_only: bool) -> tuple[Path, int]:
    flags = _FLAG_AUTOCLEAR | (_FLAG_READ_ONLY if read_only else 0)
    head = _CONFIG_HEAD.pack(backing, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags)
    config = ctypes.create_string_buffer(head, _CONFIG_SIZE)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            path = Path(f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}")
            device = os.open(path, mode | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _LOOP_CONFIGURE, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
                continue
            return path, device
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "no free loop device", "/dev/loop-control")


def attached_below(directory: Path) -> Iterator[Path]:
    """Loop devices whose file lies below a directory."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            file = backing.read_text(encoding="utf-8").rstrip("\n").removesuffix(" (deleted)")
            if Path(file).is_relative_to(directory):
                yield Path("/dev") / backing.parts[3]


def detach(device: Path) -> None:
    """Detach a device now, or after its last user."""
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.ioctl(descriptor, _LOOP_CLR_FD)
    finally:
        os.close(descriptor)
