"""The form of every benchmark's result: a table of figures, each beside its budget.

Nothing here fails: a budget that is missed is shown as such, as the machine may be busy.
"""

import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

MEGABYTE = 1_000_000
"""Bytes; sizes of files."""
MEBIBYTE = 1 << 20
"""Bytes; memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most a figure may be, or the least, as for calls a second."""

    limit: float
    unit: str
    is_minimum: bool = False

    def describe(self, value: float) -> str:
        """The budget, and whether the figure is within."""
        is_met = value > self.limit if self.is_minimum else value < self.limit
        return (
            f"{'>' if self.is_minimum else '<'} {self.limit:g} {self.unit}: {'met' if is_met else 'MISSED'}"
        )


@dataclass(slots=True)
class Table:
    """Rows of a text and some figures; a budget is judged by one figure of its row."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    notes: list[str] = field(default_factory=list[str])

    def add(self, name: str, *cells: str, budget: str = "") -> None:
        """One row."""
        self.rows.append((name, *cells, budget))

    def show(self) -> None:
        """Print the table, with how busy the machine is: that explains many a surprise."""
        titles = ("", *self.columns, "budget" if any(row[-1] for row in self.rows) else "")
        widths = [max(len(row[index]) for row in (titles, *self.rows)) for index in range(len(titles))]
        load = os.getloadavg()[0]
        lines = ["", f"{self.title}  ({os.cpu_count()} CPUs, load {load:.1f})"]
        for row in (titles, *self.rows):
            first, *cells, last = row
            middle = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths[1:-1], strict=True))
            lines.append(f"  {first:<{widths[0]}}{middle}  {last}".rstrip())
        lines += [f"  {note}" for note in self.notes]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()


def spread(values: Sequence[float], digits: int = 0) -> tuple[str, str, str]:
    """Least, median and most, as cells."""
    found = (min(values), statistics.median(values), max(values))
    minimum, median, maximum = (f"{value:.{digits}f}" for value in found)
    return minimum, median, maximum
