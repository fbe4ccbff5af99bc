"""Whether there is a screen at all; by itself, because most machines need no more of this folder."""

from contextlib import suppress
from pathlib import Path

_DUMMY = "dummy"


def has_screen(folder: Path = Path("/sys/class/vtconsole")) -> bool:
    """Whether virtual terminals are shown anywhere: without graphics the kernel has a dummy only."""
    for console in folder.glob("vtcon*"):
        with suppress(OSError):
            bound = (console / "bind").read_text(encoding="ascii").strip() == "1"
            if bound and _DUMMY not in (console / "name").read_text(encoding="ascii"):
                return True
    return False
