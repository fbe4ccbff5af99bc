"""``/proc/<pid>``: the processes."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from talos.system.files import Files
from talos.system.proc.stat import TICKS

MAX_HOLDERS = 8
"""Processes that are named when a mount is in use."""
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """What ``/proc/<pid>/stat`` contains. ``cpu_time`` in seconds, memory in bytes."""

    pid: int
    command: str
    state: str
    ppid: int
    threads: int
    cpu_time: float
    virtual_memory: int
    resident_memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process. ``label`` is that of the security module, empty without one."""

    stat: ProcessStat
    executable: str
    args: tuple[str, ...]
    label: str


def parse_process_stat(text: str) -> ProcessStat:
    """One process from the text of its ``stat``; the command may hold spaces and brackets."""
    start, end = text.index("("), text.rindex(")")
    fields = text[end + 2 :].split()
    return ProcessStat(
        pid=int(text[:start]),
        command=text[start + 1 : end],
        # Numbers of proc_pid_stat(5), less the three fields that are cut off and one for counting from 0.
        state=fields[0],
        ppid=int(fields[1]),
        cpu_time=(int(fields[11]) + int(fields[12])) / TICKS,
        threads=int(fields[17]),
        virtual_memory=int(fields[20]),
        resident_memory=max(int(fields[21]), 0) * PAGE_SIZE,
    )


def list_pids(files: Files) -> list[int]:
    """The processes there are, ordered by number."""
    return sorted(int(name) for name in files.list("/proc") if name.isdigit())


def read_processes(files: Files) -> list[Process]:
    """Every process; those that end meanwhile are left out."""
    found: list[Process] = []
    for pid in list_pids(files):
        try:
            found.append(_read_process(files, pid))
        except OSError:
            continue
    return found


def find_holders(files: Files, mount: str) -> list[str]:
    """What keeps a mount in use: ``apid (PID 17): /var/log/x``, one file of each process, up to a limit."""
    found: list[str] = []
    for pid in list_pids(files):
        held = next(
            (path for path in _list_open(files, pid) if path == mount or path.startswith(f"{mount}/")), ""
        )
        if held:
            found.append(f"{_read_command(files, pid)} (PID {pid}): {held}")
        if len(found) == MAX_HOLDERS:
            break
    return found


def _list_open(files: Files, pid: int) -> Iterator[str]:
    """The files that a process has open, by the names in its own namespace; hidden ones are left out."""
    folder = f"/proc/{pid}"
    names = [f"{folder}/{name}" for name in ("root", "cwd", "exe")]
    with suppress(OSError):
        names += [f"{folder}/fd/{name}" for name in files.list(f"{folder}/fd")]
    for name in names:
        with suppress(OSError):
            yield files.read_link(name)


def _read_command(files: Files, pid: int) -> str:
    try:
        return files.read(f"/proc/{pid}/comm").strip()
    except OSError:
        return "a process that has ended"


def _read_process(files: Files, pid: int) -> Process:
    stat = parse_process_stat(files.read(f"/proc/{pid}/stat"))
    command_line = files.read(f"/proc/{pid}/cmdline").rstrip("\0")
    return Process(
        stat=stat,
        executable=_read_executable(files, pid),
        args=tuple(command_line.split("\0")) if command_line else (),
        label=_read_label(files, pid),
    )


def _read_executable(files: Files, pid: int) -> str:
    """Kernel threads have none."""
    try:
        return files.read_link(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _read_label(files: Files, pid: int) -> str:
    """Without a security module the read fails with EINVAL."""
    try:
        return files.read(f"/proc/{pid}/attr/current").strip("\0\n ")
    except OSError:
        return ""
