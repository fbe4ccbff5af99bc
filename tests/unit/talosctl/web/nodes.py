"""Played nodes, and the fleet page of them on the loopback interface."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from talos.talosctl.web.fleet import FleetWatch
from talos.talosctl.web.server import PageServer
from talos.talosctl.web.view import Service, View
from talos.upgrade.state import IDLE, stage, start

STAGED = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0")
TRIAL = start(STAGED, running="B", cause="")
KUBELET = Service(name="kubelet", state="Running", is_healthy=True, message="")


class Nodes:
    """Nodes that are as a test sets them."""

    def __init__(self, count: int) -> None:
        self.followed: list[str] = []
        self.fetched = 0
        self.left = asyncio.Event()
        self.views = {f"10.0.{at // 250}.{at % 250 + 1}": self.make(at) for at in range(count)}

    @staticmethod
    def make(at: int) -> View:
        role = "controlplane" if at < 3 else "worker"
        return View(
            node=f"10.0.{at // 250}.{at % 250 + 1}",
            name=f"{role}-{at}",
            role=role,
            version="v1.15.0",
            stage="running",
            is_ready=True,
            services=[KUBELET, *(replace(KUBELET, name=f"service{number}") for number in range(12))],
            etcd=("leader", "voter", "voter")[at] if at < 3 else "",
            kubernetes="Ready",
            busy=at % 100,
            memory=40,
            disk=120,
            network=3 * 1024,
        )

    def set(self, node: str, **values: Any) -> None:
        self.views[node] = replace(self.views[node], **values)

    async def find(self) -> Sequence[str]:
        return list(self.views)

    async def follow(self, node: str) -> AsyncGenerator[dict[str, Any]]:
        self.followed.append(node)
        try:
            yield {"at": 1, "text": f"{node} began"}
            await asyncio.Event().wait()
        finally:
            self.followed.remove(node)
            self.left.set()

    async def follow_log(self, node: str, name: str) -> AsyncGenerator[dict[str, Any]]:
        yield {"lines": [f"{node} {name}: one", "two"]}
        await asyncio.Event().wait()

    async def fetch_view(self, node: str, before: View | None) -> View:
        del before
        self.fetched += 1
        return self.views[node]


@asynccontextmanager
async def serving(nodes: Nodes, *, is_local: bool = True) -> AsyncGenerator[str]:
    """The page's address, until the end of the context; connections to it end then, too."""
    watch = FleetWatch(nodes.fetch_view, nodes.find, cluster="test")
    page = PageServer(watch, nodes.follow, nodes.follow_log, is_local=is_local)
    listening, address = await page.start("127.0.0.1", 0)
    running = asyncio.create_task(watch.run())
    try:
        yield address
    finally:
        running.cancel()
        listening.close()
        listening.abort_clients()  # one that reads slowly would keep its socket open
        await asyncio.gather(running, return_exceptions=True)
