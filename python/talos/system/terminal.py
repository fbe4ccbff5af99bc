"""Virtual terminals of the kernel: the one with its own messages, and one to draw on."""

import fcntl
import os
import re
import struct
import termios
from contextlib import suppress
from pathlib import Path
from typing import Protocol, override

MESSAGES = 1
"""The virtual terminal with the kernel's messages."""
VT_ACTIVATE = 0x5606  # linux/vt.h
NUMBER = 2
"""The virtual terminal that the screen has to itself; the kernel's messages stay on the first."""
# linux/tiocl.h
_TIOCLINUX = 0x541C
_TIOCL_SETKMSGREDIRECT = 11
_DUMMY = "dummy"
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", re.DOTALL)


def remove_escapes(text: str) -> str:
    """Text that others wrote, without sequences that control a terminal; control characters stay."""
    return _ESCAPES.sub("", text)


class Terminal(Protocol):
    """Something that takes escape sequences and has a size."""

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        ...

    def write(self, data: bytes) -> bool:
        """Write without waiting; false when it does not take them."""
        ...


class VirtualTerminal(Terminal):
    """A terminal of the kernel's, switched to and without the kernel's own messages on it."""

    def __init__(self, number: int = NUMBER, device: str = "") -> None:
        self._fd = os.open(
            device or f"/dev/tty{number}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        )
        settings = termios.tcgetattr(self._fd)
        settings[0] &= ~termios.IXON  # output can't be stopped
        settings[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(self._fd, termios.TCSANOW, settings)
        fcntl.ioctl(self._fd, _TIOCLINUX, struct.pack("BB", _TIOCL_SETKMSGREDIRECT, MESSAGES))
        fcntl.ioctl(self._fd, VT_ACTIVATE, number)
        self.write(b"\x1b[?25l\x1b[?7l")  # no cursor, no wrapping

    @override
    def size(self) -> tuple[int, int]:
        rows, columns = struct.unpack("HHHH", fcntl.ioctl(self._fd, termios.TIOCGWINSZ, bytes(8)))[:2]
        return columns or 80, rows or 25

    @override
    def write(self, data: bytes) -> bool:
        """Write without waiting; false when it does not take all."""
        with suppress(BlockingIOError):
            return os.write(self._fd, data) == len(data)
        return False


def show_messages(number: int = MESSAGES) -> None:
    """Switch to the terminal with the kernel's messages; OSError is ignored, as there may be no terminal."""
    with suppress(OSError):
        fd = os.open("/dev/tty0", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(fd, VT_ACTIVATE, number)
        finally:
            os.close(fd)


def has_screen(folder: Path = Path("/sys/class/vtconsole")) -> bool:
    """Whether virtual terminals are shown anywhere: without graphics the kernel has a dummy only."""
    for console in folder.glob("vtcon*"):
        with suppress(OSError):
            bound = (console / "bind").read_text(encoding="ascii").strip() == "1"
            if bound and _DUMMY not in (console / "name").read_text(encoding="ascii"):
                return True
    return False
