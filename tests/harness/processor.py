"""Processor time: of a test's own work, and of a node's processes, which are found here."""

import gc
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from talos.provision.cluster import NodeInfo

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """Assert that what is done takes no more of a processor's time.

    Other programs and threads don't count, nor looking for garbage in what thousands of tests have left.
    """
    gc.freeze()
    begin = time.thread_time()
    try:
        yield
    finally:
        took = time.thread_time() - begin
        gc.unfreeze()
    assert took < seconds, f"{took:.2f} s of a processor"


def processor_seconds(pid: int) -> float:
    """What a process has used since its start, in user and kernel mode, all its threads."""
    fields = _read_stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS


def read_parent(pid: int) -> int:
    """A process's parent; 0 when it has ended."""
    try:
        return int(_read_stat(pid)[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _read_stat(pid: int) -> list[str]:
    """Fields of proc(5), from the third on: those after the name, which may hold anything."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def find_processes(node: NodeInfo) -> list[tuple[str, int]]:
    """Names and pids of what shares a node's network: also containers, which have processes of their own."""
    network = Path(f"/proc/{node.pid}/ns/net").readlink()
    found: list[tuple[str, int]] = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or (entry / "ns/net").readlink() != network:
                continue
            command = (entry / "cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
            name = "machined" if int(entry.name) == node.pid else Path(command).name
            found.append((name, int(entry.name)))
        except OSError:
            continue
    return found
