"""Processor time of processes of this machine."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What a process has used since its start, in user and kernel mode, all its threads."""
    # After the name, which may hold anything: fields 14 and 15 of proc(5).
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / _TICKS
