"""Where the screen is drawn: a virtual terminal of the kernel's, or a twin in memory."""

import fcntl
import os
import struct
import termios
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from talos.machined.screen.messages import MESSAGES, VT_ACTIVATE
from talos.machined.screen.render import Row, Style

NUMBER = 2
"""The virtual terminal that the screen has to itself; the kernel's messages stay on the first."""
# linux/tiocl.h
_TIOCLINUX = 0x541C
_TIOCL_SETKMSGREDIRECT = 11

_COLORS = {Style.PLAIN: "", Style.HEADER: "\x1b[7m", Style.GOOD: "\x1b[32m", Style.BAD: "\x1b[33m",
           Style.FAINT: "\x1b[2m"}  # fmt: skip


class Terminal(Protocol):
    """Something that takes escape sequences and has a size."""

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        ...

    def write(self, data: bytes) -> bool:
        """Write without waiting; false when it does not take them."""
        ...


class VirtualTerminal:
    """A terminal of the kernel's, switched to and without the kernel's own messages on it."""

    def __init__(self, number: int = NUMBER, device: str = "") -> None:
        self._fd = os.open(
            device or f"/dev/tty{number}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        )
        settings = termios.tcgetattr(self._fd)
        settings[0] &= ~termios.IXON  # nobody can stop it
        settings[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(self._fd, termios.TCSANOW, settings)
        fcntl.ioctl(self._fd, _TIOCLINUX, struct.pack("BB", _TIOCL_SETKMSGREDIRECT, MESSAGES))
        fcntl.ioctl(self._fd, VT_ACTIVATE, number)
        self.write(b"\x1b[?25l\x1b[?7l")  # no cursor, no wrapping

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        rows, columns = struct.unpack("HHHH", fcntl.ioctl(self._fd, termios.TIOCGWINSZ, bytes(8)))[:2]
        return columns or 80, rows or 25

    def write(self, data: bytes) -> bool:
        """Write without waiting; false when it does not take all."""
        with suppress(BlockingIOError):
            return os.write(self._fd, data) == len(data)
        return False


class MemoryTerminal:
    """The twin: keeps what was written."""

    def __init__(self, columns: int = 80, rows: int = 25) -> None:
        self.columns, self.rows = columns, rows
        self.written: list[bytes] = []
        self.is_stuck = False

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self.columns, self.rows

    def write(self, data: bytes) -> bool:
        """Keep it, unless it is stuck."""
        if not self.is_stuck:
            self.written.append(data)
        return not self.is_stuck


class Painter:
    """Draws rows, only those that changed."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._size = (0, 0)
        self._drawn: list[Row] = []

    def paint(self, rows: Sequence[Row], size: tuple[int, int]) -> None:
        """Make the terminal show these rows."""
        pieces: list[str] = []
        if size != self._size:
            pieces.append("\x1b[2J")
            self._drawn = []
        for number, row in enumerate(rows):
            if number >= len(self._drawn) or self._drawn[number] != row:
                pieces.append(f"\x1b[{number + 1};1H{_COLORS[row.style]}{row.text}\x1b[0m\x1b[K")
        if not pieces:
            return
        taken = self._terminal.write("".join(pieces).encode("ascii"))
        self._size, self._drawn = (size, [*rows]) if taken else ((0, 0), [])
