"""Plain tables: columns as wide as their widest cell and three spaces between them.

This is the layout of Go's tabwriter, which scripts parse; table libraries draw or wrap.
"""

from collections.abc import Iterable, Iterator, Sequence

from talos.talosctl.output.visible import make_visible

PADDING = 3


def format_table(rows: Iterable[Sequence[str]]) -> str:
    """The lines of a table; the first row is its header."""
    return "".join(format_lines(list(rows)))


def format_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The same line by line, for tables so large that one more copy counts."""
    widths: list[int] = []
    for row in rows:
        widths.extend(0 for _ in range(len(row) - len(widths)))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], len(_one_line(cell)))
    for row in rows:
        yield _line(row, widths)


class GrowingTable:
    """A table whose rows are shown at once: a column only ever gets wider.

    ``widths`` are what the columns usually need, so that later rows seldom have to grow.
    """

    def __init__(self, header: Sequence[str], widths: Sequence[int] = ()) -> None:
        self._header = list(header)
        usual = [*widths, *(0 for _ in header)][: len(self._header)]
        self._widths = [max(len(title), width) for title, width in zip(header, usual, strict=True)]
        self._is_begun = False

    def add(self, rows: Sequence[Sequence[str]]) -> str:
        """The lines to show for more rows."""
        table = list(rows)
        for row in table:
            self._widths = [
                max(width, len(_one_line(cell))) for width, cell in zip(self._widths, row, strict=True)
            ]
        if not self._is_begun and table:
            table.insert(0, self._header)
            self._is_begun = True
        return "".join(_line(row, self._widths) for row in table)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (_one_line(cell).ljust(width + PADDING) for cell, width in zip(row, widths, strict=False))
    return "".join(cells).rstrip() + "\n"


def _one_line(cell: str) -> str:
    # No text of a node may forge another row, or columns.
    return cell if cell.isprintable() else make_visible(cell.replace("\n", " ").replace("\t", " "))
