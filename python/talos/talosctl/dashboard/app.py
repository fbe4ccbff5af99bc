"""The dashboard: one node at a time, a page for each subject."""

from collections.abc import Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Footer, Static, Tab, TabbedContent, TabPane, Tabs

from talos.client.target import Target
from talos.resource import kinds
from talos.talosctl.dashboard.feed import NodeFeed, NodeView
from talos.talosctl.dashboard.logs import LogPage
from talos.talosctl.dashboard.monitor import MonitorPage, ProcessPage
from talos.talosctl.dashboard.network import NetworkPage
from talos.talosctl.dashboard.summary import (
    Line,
    clean,
    describe_kubernetes,
    describe_machine,
    describe_network,
    describe_services,
    make_title,
)

REDRAW = 0.3
"""Seconds between two drawings at least: a node that starts reports much at once."""


class SummaryPage(VerticalScroll):
    """What the node is, what runs on it, and what it lacks."""

    def __init__(self) -> None:
        super().__init__()
        self._boxes = [Static(classes="box") for _ in range(4)]

    def compose(self) -> ComposeResult:
        """Four boxes, two in a row."""
        for pair in (self._boxes[:2], self._boxes[2:]):
            with Horizontal(classes="row"):
                yield from pair

    def show(self, view: NodeView) -> None:
        """Draw what is known of a node."""
        for box, title, lines in zip(
            self._boxes,
            ("Machine", "Network", "Kubernetes", "Services"),
            (
                describe_machine(view),
                describe_network(view),
                describe_kubernetes(view),
                describe_services(view),
            ),
            strict=True,
        ):
            box.border_title = title
            box.update(_make_table(lines))


class Dashboard(App[None]):
    """Nodes in tabs, each with the same pages; the page stays when the node changes."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "talosctl dashboard"
    CSS = """
    #title { background: $primary; color: $text; padding: 0 1; }
    #error { background: $error; color: $text; padding: 0 1; display: none; }
    .row { height: auto; }
    .box { width: 1fr; height: auto; border: round $secondary; padding: 0 1; }
    .charts { height: 6; }
    Chart { width: 1fr; height: 6; padding: 0 1; }
    #form { height: auto; padding: 0 1; }
    RichLog { height: 1fr; }
    TabPane { padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "page('summary')", "Summary"),
        Binding("f2", "page('monitor')", "Monitor"),
        Binding("f3", "page('processes')", "Processes"),
        Binding("f4", "page('logs')", "Logs"),
        Binding("f5", "page('network')", "Network"),
        Binding("h,left", "node(-1)", "Previous node", show=False),
        Binding("l,right", "node(1)", "Next node", show=False),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q", priority=True),
    ]

    def __init__(self, target: Target, nodes: Sequence[str], interval: float) -> None:
        super().__init__()
        self._target = target
        self._views = [NodeView(node=node) for node in nodes]
        self._interval = interval
        self._current = 0
        self._is_stale = True
        # Kept, not looked up: the last drawing may come when the screen is being taken apart.
        self._pages = TabbedContent(id="pages")
        self._title = Static(id="title")
        self._error = Static(id="error")
        self._summary, self._monitor, self._processes = SummaryPage(), MonitorPage(), ProcessPage()
        self._logs, self._network = LogPage(target), NetworkPage(target)

    def compose(self) -> ComposeResult:
        """The nodes, the title, the pages, the keys."""
        if len(self._views) > 1:
            yield Tabs(
                *(Tab(clean(view.node), id=f"node-{i}") for i, view in enumerate(self._views)), id="nodes"
            )
        yield self._title
        yield self._error
        with self._pages:
            for name, page in (
                ("summary", self._summary),
                ("monitor", self._monitor),
                ("processes", self._processes),
                ("logs", self._logs),
                ("network", self._network),
            ):
                with TabPane(name.capitalize(), id=name):
                    yield page
        yield Footer()

    def on_mount(self) -> None:
        """Follow all nodes from the start, so that the charts are there when the reader comes to one."""
        for view in self._views:
            self.run_worker(NodeFeed(self._target, view, self._interval, self._change).run())
        self.set_interval(REDRAW, self._draw)

    @property
    def view(self) -> NodeView:
        """The node that is shown."""
        return self._views[self._current]

    def action_page(self, name: str) -> None:
        """Show another page."""
        self._pages.active = name
        self._change()

    def action_node(self, step: int) -> None:
        """Show the next or the previous node."""
        if len(self._views) > 1:
            number = (self._current + step) % len(self._views)
            self.query_one("#nodes", Tabs).active = f"node-{number}"

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Show the node of the tab."""
        if event.tabs.id != "nodes" or event.tab.id is None:
            return
        number = int(event.tab.id.removeprefix("node-"))
        if number != self._current:
            self._current = number
            self._change()

    def on_tabbed_content_tab_activated(self) -> None:
        """Draw the page that has come into sight."""
        self._change()

    def _change(self) -> None:
        self._is_stale = True

    def _draw(self) -> None:
        """Draw what is in sight, if something has changed."""
        if not self._is_stale:
            return
        self._is_stale = False
        view = self.view
        self._title.update(Text(make_title(view)))
        self._error.update(Text(clean(view.error)))
        self._error.display = bool(view.error)
        self._logs.offer(view.all(kinds.SERVICE))
        match self._pages.active:
            case "summary":
                self._summary.show(view)
            case "monitor":
                self._monitor.show(view)
            case "processes":
                self._processes.show(view)
            case "network":
                self._network.show(view)
            case _:
                self._logs.show(view.node)


def _make_table(lines: Sequence[Line]) -> Table:
    table = Table.grid(padding=(0, 1))
    colors = {True: "green", False: "red", None: ""}
    for line in lines:
        table.add_row(Text(line.label, style="bold"), Text(line.value, style=colors[line.is_good]))
    return table
