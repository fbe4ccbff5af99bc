"""Where the container platform's launcher leaves word for PID 1."""

from pathlib import Path

HANDOVER = Path("/system/platform")
"""Has ``cmdline`` on the container platform, and nowhere else."""


def is_container() -> bool:
    """Whether a launcher has started us. Needs no /proc."""
    return (HANDOVER / "cmdline").exists()
