"""What services log on the console, where the config has it so."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.runtime.console_logs import ConsoleLogsController, format_lines
from talos.machined.logs.console import CONTROLLERS
from talos.machined.logs.store import LogStore
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState

LINE = b'{"time":"T","level":"%s","msg":"m"}\n'


class Node:
    """A node with its logs and the lines of its console."""

    def __init__(self) -> None:
        self.state, self.logs = MemoryState(), LogStore()
        self.shown: list[str] = []
        self._more = trio.Event()

    def write(self, text: str) -> None:
        self.shown.append(text)
        trio.from_thread.run_sync(self._more.set)

    async def apply(self, *, debug: bool) -> None:
        text = f"version: v1alpha1\ndebug: {str(debug).lower()}\nmachine: {{type: worker}}\n"
        await put(self.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))
        await trio.testing.wait_all_tasks_blocked(0.02)

    @asynccontextmanager
    async def controller(self) -> AsyncGenerator[None]:
        with trio.fail_after(20):
            async with running(self.state, ConsoleLogsController(self.logs, self.write)):
                yield

    async def wait_for(self, *lines: str) -> None:
        while self.shown != list(lines):
            await self._more.wait()
            self._more = trio.Event()


async def test_the_console_has_the_services_logs_while_the_config_has_it_so() -> None:
    node = Node()
    async with node.controller():
        await node.apply(debug=False)
        node.logs.append("kubelet", b"before\n")
        await node.apply(debug=True)
        node.logs.append("kubelet", b"one\n")
        await node.wait_for("kubelet: one")
        node.logs.append("etcd", b"two\n")  # a log that is new
        await node.wait_for("kubelet: one", "etcd: two")
        await node.apply(debug=False)
        node.logs.append("kubelet", b"after\n")
        await node.apply(debug=True)
        node.logs.append("kubelet", b"again\n")
        await node.wait_for("kubelet: one", "etcd: two", "kubelet: again")


def test_what_the_console_has_anyway_comes_once() -> None:
    assert format_lines(CONTROLLERS, LINE % b"info" + LINE % b"debug") == ["T m"]


def test_a_line_controls_no_terminal() -> None:
    assert format_lines("kubelet", b"\x1b]0;title\x07\xff\n") == ["kubelet: ?]0;title?\ufffd"]
