"""The page with a log of the node, as it grows."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import RichLog, Select

from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.system.errors import UserError
from talos.talosctl.client.logs import read_kernel_log, read_log
from talos.talosctl.dashboard.feed import RETRY
from talos.talosctl.dashboard.summary import clean

KERNEL = "kernel"
LOGS_OF_PID_1 = ("machined", "controller-runtime")
"""Logs that are no service's."""
LINES = 2000
"""Lines that are kept."""
TAIL = 200
"""Lines that a service's log begins with."""


class LogPage(Vertical):
    """One log, chosen from those that the node has."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._node = ""
        self._choice = Select[str]([(KERNEL, KERNEL)], value=KERNEL, allow_blank=False, compact=True)
        self._lines = RichLog(max_lines=LINES, wrap=True, markup=False, highlight=False)
        self._names: list[str] = [KERNEL]

    def compose(self) -> ComposeResult:
        """The choice over the lines."""
        yield self._choice
        yield self._lines

    def offer(self, services: Iterable[str]) -> None:
        """Let the reader choose from these, too."""
        names = [KERNEL, *dict.fromkeys((*LOGS_OF_PID_1, *services))]
        if names == self._names:
            return
        self._names = names
        chosen = self._choice.value
        with self._choice.prevent(Select.Changed):
            self._choice.set_options([(Text(clean(name)), name) for name in names])
            self._choice.value = chosen if chosen in names else KERNEL

    def show(self, node: str) -> None:
        """Follow a log of this node, from when the page is first in sight: lines are wrapped to its width."""
        if node != self._node:
            self._node = node
            self.call_after_refresh(self._restart)

    def on_select_changed(self, event: Select.Changed) -> None:
        """Show the other log."""
        event.stop()
        if self._node:
            self._restart()

    def _restart(self) -> None:
        self._lines.clear()
        self.run_worker(self._copy(self._node, str(self._choice.value)), exclusive=True)

    async def _copy(self, node: str, name: str) -> None:
        while True:
            try:
                async with open_session(self._target) as session:
                    rest = b""
                    async for chunk in _read(session, node, name):
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in lines:
                            self._lines.write(Text(clean(line.decode(errors="replace"))), expand=True)
            except (RpcError, UserError) as error:
                self._lines.write(Text(clean(describe(error, self._target)), style="red"), expand=True)
            await asyncio.sleep(RETRY)
            self._lines.clear()


def _read(session: Session, node: str, name: str) -> AsyncGenerator[bytes]:
    if name == KERNEL:
        return read_kernel_log(session, node, follow=True)
    return read_log(session, node, name, follow=True, tail=TAIL)
