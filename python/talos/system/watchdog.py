"""The hardware watchdog, which resets the machine when it is not fed in time; behind a port."""

import array
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol, override

# linux/watchdog.h
_WDIOC_SETTIMEOUT = 0xC0045706
_WDIOF_CARDRESET = 0x20
_MAGIC_CLOSE = b"V"


DEVICES = Path("/sys/class/watchdog")


def find_watchdog(devices: Path = DEVICES) -> str:
    """The path of a watchdog, one of hardware if there is any; empty when there is none.

    The kernel's own timer belongs to no device, and resets nothing when the kernel hangs.
    """
    folders = sorted(devices.iterdir()) if devices.is_dir() else []
    found = [(not (folder / "device").exists(), f"/dev/{folder.name}") for folder in folders]
    return min(found)[1] if found else ""


def has_reset(devices: Path = DEVICES) -> bool:
    """Whether a watchdog's device has recorded that this boot is due to it."""
    for folder in sorted(devices.iterdir()) if devices.is_dir() else ():
        with suppress(OSError, ValueError):
            if int((folder / "bootstatus").read_text(encoding="ascii")) & _WDIOF_CARDRESET:
                return True
    return False


def arm_watchdog(device: str, seconds: int) -> int:
    """Have a device reset the machine unless a process opens and feeds it in time; the time-out. OSError."""
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    try:
        value = array.array("i", [seconds])
        fcntl.ioctl(descriptor, _WDIOC_SETTIMEOUT, value)
        return value[0]
    finally:
        os.close(descriptor)  # without the magic: it stays armed


class Watchdog(Protocol):
    """An armed watchdog."""

    def set_timeout(self, seconds: int) -> int:
        """Give it a time-out, which also feeds it; returns the one it has, as a device may round. OSError."""
        ...

    def feed(self) -> None:
        """Begin the time-out anew."""
        ...

    def disarm(self) -> None:
        """Stop it, unless its driver can't be stopped, and let go of it."""
        ...


class KernelWatchdog(Watchdog):
    """One of the kernel's devices: armed as soon as it is open."""

    def __init__(self, device: str) -> None:
        self._fd = os.open(device, os.O_WRONLY | os.O_CLOEXEC)

    @override
    def set_timeout(self, seconds: int) -> int:
        value = array.array("i", [seconds])
        fcntl.ioctl(self._fd, _WDIOC_SETTIMEOUT, value)
        return value[0]

    @override
    def feed(self) -> None:
        os.write(self._fd, b"\0")

    @override
    def disarm(self) -> None:
        os.write(self._fd, _MAGIC_CLOSE)
        os.close(self._fd)
