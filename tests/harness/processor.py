"""Processes of this machine: which are a node's, and the processor time that they use."""

import os
from pathlib import Path

from talos.provision.cluster import NodeInfo

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What a process has used since its start, in user and kernel mode, all its threads."""
    # After the name, which may hold anything: fields 14 and 15 of proc(5).
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / _TICKS


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
