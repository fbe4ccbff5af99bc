"""The pages with figures: charts of the last minutes, and the processes."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import DataTable, Static

from talos.system.sizes import format_pretty_size
from talos.talosctl.dashboard.feed import NodeView
from talos.talosctl.dashboard.figures import Figures
from talos.talosctl.dashboard.summary import clean

MAX_PROCESSES = 200
"""Rows of the table; a terminal shows fewer."""
BAR = 20
"""Columns of a bar."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BUSY, _FULL = 60.0, 85.0
"""Percent from which a bar is yellow, and red."""

type Figure = Callable[[Figures], float]


class Chart(Static):
    """The values of the last minutes over a title with the newest one; the oldest is on the left.

    ``top`` is the value at the upper edge; without it that is the largest one.
    """

    def __init__(
        self, title: str, figure: Figure, as_text: Callable[[float], str], *, top: float | None = None
    ) -> None:
        super().__init__()
        self._title = title
        self._figure = figure
        self._as_text = as_text
        self._top = top
        self._values: Sequence[float] = ()

    def show(self, history: Sequence[Figures]) -> None:
        """Draw these figures."""
        self._values = [self._figure(figures) for figures in history]
        self.refresh()

    def render(self) -> Text:
        """Title and columns, in the room there is."""
        width, height = self.content_size
        shown = self._values[-width:] if width else ()
        top = self._top or max(shown, default=0.0)
        newest = self._as_text(shown[-1]) if shown else ""
        peak = f"  (most {self._as_text(max(shown))})" if shown and self._top is None else ""
        rows = [Text(row, style="cyan") for row in draw_columns(shown, height - 1, top)]
        return _join([Text.assemble((f"{self._title}  ", "bold"), newest, (peak, "dim")), *rows])


def draw_columns(values: Sequence[float], height: int, top: float) -> list[str]:
    """Rows of block characters, the upper one first: each value a column of up to ``height`` rows."""
    steps = len(_BLOCKS) - 1
    levels = [round(min(value / top, 1.0) * height * steps) if top > 0 else 0 for value in values]
    return [
        "".join(_BLOCKS[min(max(level - row * steps, 0), steps)] for level in levels)
        for row in reversed(range(height))
    ]


class MonitorPage(VerticalScroll):
    """Processors, memory, network and disks."""

    def __init__(self) -> None:
        super().__init__()
        self._bars = Static(classes="box")
        self._memory = Static(classes="box")
        self._links = Static(classes="box")
        self._charts = (
            Chart("Processors busy", lambda now: now.busy, _percent, top=100.0),
            Chart("Memory in use", lambda now: now.memory_percent, _percent, top=100.0),
            Chart("Network received", lambda now: now.received, _rate),
            Chart("Network sent", lambda now: now.sent, _rate),
            Chart("Disks read", lambda now: now.read, _rate),
            Chart("Disks written", lambda now: now.written, _rate),
        )

    def compose(self) -> ComposeResult:
        """Bars above, charts below, two in a row."""
        with Horizontal(classes="row"):
            yield self._bars
            yield self._memory
            yield self._links
        for first, second in zip(self._charts[::2], self._charts[1::2], strict=True):
            with Horizontal(classes="charts"):
                yield first
                yield second

    def show(self, view: NodeView) -> None:
        """Draw what is known of a node."""
        for chart in self._charts:
            chart.show(view.history)
        if not view.history:
            return
        now = view.history[-1]
        self._bars.update(_join([_bar(f"CPU{number}", share) for number, share in enumerate(now.processors)]))
        self._memory.update(_describe(now))
        self._links.update(
            "\n".join(
                f"{clean(link.name):<10.10} ↓{_rate(link.received):>10} ↑{_rate(link.sent):>10}"
                for link in now.links
            )
        )


class ProcessPage(DataTable[Text]):
    """The busiest processes, or the largest."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "sort('cpu')", "by processor time"),
        Binding("m", "sort('memory')", "by memory"),
    ]
    _COLUMNS = ("PID", "S", "THR", "CPU %", "CPU TIME", "VIRT", "RES", "COMMAND")

    def __init__(self) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True)
        self._by_memory = False
        self._view: NodeView | None = None

    def on_mount(self) -> None:
        """Make the columns."""
        self.add_columns(*self._COLUMNS)

    def action_sort(self, order: str) -> None:
        """Sort by another column from now on."""
        self._by_memory = order == "memory"
        if self._view:
            self.show(self._view)

    def show(self, view: NodeView) -> None:
        """Show the processes of the newest figures; where the reader is stays in sight."""
        self._view = view
        row, place = self.cursor_row, self.scroll_y
        self.clear()
        processes = list(view.history[-1].processes) if view.history else []
        if self._by_memory:
            processes.sort(key=lambda one: one.process.resident_memory, reverse=True)
        for one in processes[:MAX_PROCESSES]:
            process = one.process
            cells = (
                str(process.pid),
                process.state,
                str(process.threads),
                f"{one.percent:.1f}" if one.percent >= 0 else "",
                f"{process.cpu_time:.2f}",
                format_pretty_size(process.virtual_memory),
                format_pretty_size(process.resident_memory),
                process.args or process.executable or process.command,
            )
            self.add_row(*(Text(clean(cell)) for cell in cells))
        self.move_cursor(row=row, scroll=False)
        self.scroll_to(y=place, animate=False)


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def _rate(value: float) -> str:
    return f"{format_pretty_size(round(value))}/s"


def _bar(label: str, percent: float) -> Text:
    filled = round(BAR * percent / 100)
    style = "red" if percent >= _FULL else "yellow" if percent >= _BUSY else "green"
    return Text.assemble(
        f"{label:<7}", ("█" * filled, style), ("░" * (BAR - filled), "dim"), f" {percent:3.0f} %"
    )


def _join(lines: Sequence[Text]) -> Text:
    return Text("\n").join(lines)


def _describe(now: Figures) -> Text:
    facts = (
        f"memory  {format_pretty_size(now.memory_used)} of {format_pretty_size(now.memory_total)}",
        f"cached  {format_pretty_size(now.memory_cached)}",
        f"load    {' '.join(f'{value:.2f}' for value in now.load)}",
        f"user {now.user:.0f} %, system {now.system:.0f} %, disks {now.waiting:.0f} %",
        f"{now.running} running, {now.blocked} blocked",
        f"{now.switches:.0f} switches/s, {now.forks:.0f} forks/s",
    )
    return _join([_bar("memory", now.memory_percent), *map(Text, facts)])
