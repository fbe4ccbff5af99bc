"""Pressure on memory as the kernel measures it, and the end of a control group.

linux/Documentation/accounting/psi.rst, linux/Documentation/admin-guide/cgroup-v2.rst
"""

import os
import select
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path

import trio

from talos.system import kernel

NODE = Path("/proc/pressure/memory")
_SYS_PROCESS_MRELEASE = 448  # asm/unistd_64.h


def parse_pressure(text: str) -> Mapping[str, float]:
    """A pressure file by share and span, such as ``full_avg10``: averages in percent, totals in microseconds.

    What is no number counts nothing.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        share, _, rest = line.partition(" ")
        for field in rest.split():
            span, _, value = field.partition("=")
            with suppress(ValueError):
                number = float(value)
                found[f"{share}_{span}"] = number if isfinite(number) else 0.0
    return found


class PressureTrigger:
    """Reports when processes have stood still for want of memory, without looking. OSError: the kernel can't.

    ``stall`` within ``window``, both in microseconds; at most one event in a window.
    """

    def __init__(self, stall: int, window: int, path: Path = NODE) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(self._fd, f"some {stall} {window}\0".encode())
            # Event loops wait for readable files. This one has urgent events, by which an epoll is readable.
            self._poll = select.epoll()
            self._poll.register(self._fd, select.EPOLLPRI)
        except OSError:
            os.close(self._fd)
            raise

    async def wait(self) -> None:
        """Wait for the next event."""
        await trio.lowlevel.wait_readable(self._poll.fileno())
        self._poll.poll(0)

    def close(self) -> None:
        """Forget it."""
        self._poll.close()
        os.close(self._fd)


def kill_group(group: Path) -> list[str]:
    """End all processes of a control group and below at once; the command lines of those that there were.

    Their memory is given back at once, also when a process is slow to end. OSError: the group is gone.
    """
    pids = [int(pid) for file in group.rglob("cgroup.procs") for pid in file.read_text().split()]
    commands: list[str] = []
    descriptors: list[int] = []
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").strip()
            commands.append(command.decode(errors="replace"))
            descriptors.append(os.pidfd_open(pid))
    try:
        (group / "cgroup.kill").write_text("1", encoding="ascii")
        for descriptor in descriptors:
            with suppress(OSError):  # a process that has ended has given its memory back itself
                kernel.syscall(_SYS_PROCESS_MRELEASE, descriptor, 0)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return commands
