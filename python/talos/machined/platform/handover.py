"""The directory through which the container platform's launcher passes data to PID 1."""

from pathlib import Path

HANDOVER = Path("/system/platform")
"""Contains ``cmdline`` on the container platform only."""


SLOTS = "slots"
"""The folder with both slots, and META."""


def is_container() -> bool:
    """Whether PID 1 runs on the container platform. Needs no /proc."""
    return (HANDOVER / "cmdline").exists()
