"""An upgrade of many nodes: rows that change on a terminal, plain lines elsewhere, a table at last."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from talos.fleet.progress import FleetProgress, NodeProgress, NodeStep, Watcher
from talos.talosctl.output import console
from talos.talosctl.output.table import format_table
from talos.talosctl.output.visible import make_visible

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {
    NodeStep.DONE: "green",
    NodeStep.CURRENT: "green",
    NodeStep.FAILED: "red",
    NodeStep.NOT_STARTED: "dim",
}
_ORDER = tuple(NodeStep)
_LENGTH = 12
"""Characters of a bar."""


class Lines:
    """A line whenever a node's step is another or has another text."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def changed(self, row: NodeProgress) -> None:
        """Write it, unless only a number has changed."""
        detail = "" if row.step is NodeStep.PULLING else row.detail
        text = f"{row.node}: {row.step.value}{': ' if detail else ''}{detail}"
        if self._last.get(row.node) != text:
            self._last[row.node] = text
            console.note(text)


class LiveRows:
    """Rows that change in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._rows: dict[str, NodeProgress] = {}
        self._live = Live(
            console=Console(file=sys.stderr, highlight=False), get_renderable=self._make, refresh_per_second=4
        )

    def start(self, progress: FleetProgress) -> None:
        """Show all rows from now on."""
        self._rows = {row.node: row for row in progress.rows}
        self._live.start()

    def stop(self) -> None:
        """Leave them as they are."""
        self._live.stop()

    def changed(self, row: NodeProgress) -> None:
        """A row is drawn anew by itself."""

    def _make(self) -> "Table":
        from rich.markup import escape
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for row in self._rows.values():
            style = _STYLES.get(row.step, "cyan")
            filled = _LENGTH * _ORDER.index(row.step) // _ORDER.index(NodeStep.DONE)
            bar = "━" * min(filled, _LENGTH)
            seconds = f"{row.seconds:.0f} s" if row.began else ""
            table.add_row(
                escape(make_visible(row.name)),
                f"[{style}]{bar}[/{style}][dim]{'━' * (_LENGTH - len(bar))}[/dim]",
                f"[{style}]{row.step.value}[/{style}]",
                seconds,
                f"[dim]{escape(make_visible(row.detail))}[/dim]",
            )
        return table


@contextmanager
def following(*, is_plain: bool) -> Generator[Lines | LiveRows]:
    """Who shows the progress, ended properly however the block ends."""
    if is_plain or not sys.stderr.isatty():
        yield Lines()
        return
    live = LiveRows()
    try:
        yield live
    finally:
        live.stop()


def begin(watcher: Watcher, progress: FleetProgress) -> None:
    """Show the rows of an upgrade that begins."""
    if isinstance(watcher, LiveRows):
        watcher.start(progress)


def format_rows(progress: FleetProgress) -> str:
    """The table of what became of each node."""
    header = ("NODE", "HOSTNAME", "ROLE", "BEFORE", "AFTER", "RESULT", "TIME", "DOWNTIME", "REASON")
    rows = (
        (
            row.node,
            row.hostname,
            "controlplane" if row.is_control_plane else "worker",
            row.before,
            row.after,
            row.step.value,
            f"{row.seconds:.0f}s" if row.began else "",
            f"{row.downtime:.0f}s" if row.down else "",
            row.detail if row.step is NodeStep.FAILED else "",
        )
        for row in progress.rows
    )
    return format_table([header, *rows])
