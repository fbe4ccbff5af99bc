"""The logs of all services on the console, where the config has ``debug: true``."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import override

import trio

from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.machined.logs.console import CONTROLLERS, MACHINED, format_for_console, is_shown
from talos.machined.logs.store import LogStore
from talos.resource import ids
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.system.logging import make_printable

_OWN = frozenset({MACHINED, CONTROLLERS})
"""Logs whose lines are on the console in any case, but for those for debugging."""


class ConsoleLogsController(Controller):
    """MachineConfig → what the services log from then on is written to the console, too.

    A slow console holds up no service: the logs are in memory, and lines that it has dropped are left out.
    ``write`` blocks.
    """

    name = "runtime.ConsoleLogsController"
    inputs = (Input(*ids.MACHINE_CONFIG),)

    def __init__(self, logs: LogStore, write: Callable[[str], None]) -> None:
        self._logs, self._write = logs, write

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        async with trio.open_nursery() as nursery:
            scope: trio.CancelScope | None = None
            async for _ in runtime.events():
                config = await read_config(runtime)
                is_wanted = config is not None and effective.is_debugged(config)
                if is_wanted and scope is None:
                    scope = trio.CancelScope()
                    nursery.start_soon(self._follow, scope)
                elif scope is not None and not is_wanted:
                    scope.cancel()
                    scope = None
                runtime.reset_backoff()

    async def _follow(self, scope: trio.CancelScope) -> None:
        with scope:
            async with aclosing(self._logs.follow_all(self._logs.find_ends())) as parts:
                async for part in parts:
                    texts = format_lines(part.id, part.lines)
                    await trio.to_thread.run_sync(self._write_all, texts, abandon_on_cancel=True)

    def _write_all(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._write(text)


def format_lines(log_id: str, lines: bytes) -> Sequence[str]:
    """Lines of a log as the console shows them, without those that it has anyway."""
    found = lines.decode(errors="replace").splitlines()
    if log_id in _OWN:
        return [format_for_console(line) for line in found if not is_shown(line)]
    return [f"{log_id}: {make_printable(line)}" for line in found]
