"""What a terminal shows while a command waits for nodes."""

import asyncio
import io
import sys
import threading
from collections.abc import AsyncIterator
from typing import override

import pytest
from google.protobuf.empty_pb2 import Empty
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.machine.machine_pb2 import Event, EventsRequest, Memory, MemoryResponse
from talos.talosctl.client import fanout
from talos.talosctl.output import waiting
from talos.talosctl.output.waiting import format_wait


class Terminal(io.StringIO):
    """A terminal that reports when something is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    @override
    def isatty(self) -> bool:
        return True

    @override
    def write(self, text: str) -> int:
        if "waiting" in text:
            self.shown.set()
        return super().write(text)


def test_nodes_that_take_long_are_named(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(waiting, "DELAY", 0.0)

    async def answer() -> AsyncIterator[MemoryResponse]:
        assert await asyncio.to_thread(screen.shown.wait, REAL_TIMEOUT)
        yield MemoryResponse(messages=[Memory()])

    node.on("/machine.MachineService/Memory", Empty, lambda _request, _metadata: answer())
    assert talosctl("memory", "-n", "10.0.0.2").code == 0
    assert "waiting for 10.0.0.2: 0 s" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_what_is_quick_shows_nothing(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    node.on("/machine.MachineService/Memory", Empty, MemoryResponse(messages=[Memory()]))
    assert talosctl("memory", "-n", "10.0.0.2").code == 0
    assert screen.getvalue() == ""


def test_what_is_followed_is_not_waited_for(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(_pending: object) -> None:
        raise AssertionError("a line about waiting among the events")

    monkeypatch.setattr(fanout, "showing_wait", show)
    node.on("/machine.MachineService/Events", EventsRequest, [Event()])
    assert talosctl("events", "-n", "10.0.0.2").code == 0


def test_a_line_names_three_nodes() -> None:
    assert format_wait(["a", "b", "c", "d", "e"], 3.4) == "waiting for a, b, c and 2 more: 3 s"
