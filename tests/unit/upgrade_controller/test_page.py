"""The page in a pod, from the start on without nodes."""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import cast, override

import pytest
from tests.unit.talosctl.web.nodes import Nodes as Played

from talos.client.target import Target
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.talosctl.web.nodes import Nodes
from talos.upgrade_controller import page
from talos.upgrade_controller.page import run_page_in_pod


class Absent(Played):
    """Nodes that can't be found while there is a reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(2)
        self.reason = reason

    @override
    async def find(self) -> Sequence[str]:
        if self.reason:
            raise UserError(self.reason)
        return await super().find()

    def target(self) -> Target:
        return Target(endpoints=(), nodes=(), context="test")


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("has_config", [False, True])
def test_a_pod_without_nodes_shows_why_until_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_config: bool
) -> None:
    monkeypatch.setattr(page, "RETRY_INTERVAL", 0.01)
    talosconfig, nodes = tmp_path / "config", Absent("<b>no</b> endpoint")
    shown, lines = list[str](), list[str]()
    if has_config:
        talosconfig.touch()

    async def run() -> None:
        started, logged = asyncio.Event(), asyncio.Event()

        def show(address: str) -> None:
            shown.append(address)
            started.set()

        def write(line: str) -> None:
            lines.append(line)
            logged.set()

        serving = run_page_in_pod(
            cast("Nodes", nodes), talosconfig, "127.0.0.1", find_port(), show, Log(write=write)
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(serving)
            await started.wait()
            await logged.wait()
            (address,) = shown
            status, text = await asyncio.to_thread(get, address)
            assert status == 503
            reason = (
                "&lt;b&gt;no&lt;/b&gt; endpoint" if has_config else "allow os:reader and the namespace in"
            )
            assert reason in text
            other = address.rsplit("/", 2)[0] + "/x/"
            assert (await asyncio.to_thread(get, other))[0] == 404
            nodes.reason = ""
            while status != 200:
                status, text = await asyncio.to_thread(get, address)
            assert "<script" in text
            running.cancel()

    asyncio.run(run())
    assert len(shown) == 1, "the address stays"
    assert sum("os:reader" in line or "endpoint" in line for line in lines) == 1
