"""Pressure on memory as the kernel measures it, and the end of a control group.

linux/Documentation/accounting/psi.rst, linux/Documentation/admin-guide/cgroup-v2.rst
"""

import os
import select
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path

import trio

from talos.system import kernel

NODE = Path("/proc/pressure/memory")
MAX_COMMANDS = 100
"""Command lines that are read of a group, which may have many thousand processes."""
MAX_COMMAND = 256
"""Characters of a command line, which may have megabytes."""
READ_TIMEOUT = 0.2
"""Seconds for reading command lines: the end of a group does not wait for them any longer."""
RELEASE_TIMEOUT = 2.0
"""Seconds for giving memory back; the kernel does so itself when a process ends."""
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


async def kill_group(group: Path) -> Sequence[str]:
    """End all processes of a control group and below, and give their memory back; their command lines.

    At most MAX_COMMANDS of them, of MAX_COMMAND characters; the name in brackets of a process whose own can't
    be read in time. OSError: the group is gone.
    """
    pids = find_processes(group)
    found = _read_names(pids[:MAX_COMMANDS])
    with trio.move_on_after(READ_TIMEOUT):
        await trio.to_thread.run_sync(_read_commands, found, abandon_on_cancel=True)
    (group / "cgroup.kill").write_text("1", encoding="ascii")
    commands = tuple(found.values())
    with trio.move_on_after(RELEASE_TIMEOUT):
        await trio.to_thread.run_sync(_release_memory, pids, abandon_on_cancel=True)
    rest = len(pids) - len(commands)
    return (*commands, f"and {rest} more") if rest else commands


def find_processes(group: Path) -> Sequence[int]:
    """The processes of a control group and below; none of a group that is gone."""
    found: list[int] = []
    for file in group.rglob("cgroup.procs"):
        with suppress(OSError):  # a container's group goes with its last process
            found += map(int, file.read_text(encoding="ascii").split())
    return found


def _read_names(pids: Sequence[int]) -> dict[int, str]:
    """The names of those processes that there still are, which the kernel has itself."""
    found: dict[int, str] = {}
    for pid in pids:
        with suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
            found[pid] = f"[{name.strip()}]"
    return found


def _read_commands(commands: dict[int, str]) -> None:
    """Put the command lines of processes in the place of their names.

    The kernel reads a process's own memory for it, and waits while that is changed: for seconds, where
    memory has to be freed first.
    """
    for pid in tuple(commands):
        with suppress(OSError):
            with Path(f"/proc/{pid}/cmdline").open("rb") as file:
                command = file.read(4 * MAX_COMMAND).replace(b"\0", b" ").strip()
            if command:
                commands[pid] = command.decode(errors="replace")[:MAX_COMMAND]


def _release_memory(pids: Sequence[int]) -> None:
    """Give back the memory of processes that were killed, also of one that is slow to end."""
    for pid in pids:
        with suppress(OSError):  # it has ended, or another process has its number, which the kernel refuses
            descriptor = os.pidfd_open(pid)
            try:
                kernel.syscall(_SYS_PROCESS_MRELEASE, descriptor, 0)
            finally:
                os.close(descriptor)
