"""Rows of text on a terminal: only changes are drawn."""

from collections.abc import Sequence

from talos.machined.screen.render import ScreenRow, Style
from talos.system.terminal import Terminal

_COLORS = {Style.PLAIN: "", Style.HEADER: "\x1b[7m", Style.GOOD: "\x1b[32m", Style.BAD: "\x1b[33m",
           Style.FAINT: "\x1b[2m"}  # fmt: skip


class Painter:
    """Draws rows, only those that changed."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._size = (0, 0)
        self._drawn: list[ScreenRow] = []

    def paint(self, rows: Sequence[ScreenRow], size: tuple[int, int]) -> None:
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
