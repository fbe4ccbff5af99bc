"""The nodes that a talosconfig leads to, and the page of them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from talos.client.target import Target
from talos.system.errors import UserError
from talos.talosctl.client.command import need_nodes
from talos.talosctl.client.nodes import resolve_nodes
from talos.talosctl.client.select import is_name
from talos.talosctl.web.events import follow_events
from talos.talosctl.web.fleet import FleetWatch
from talos.talosctl.web.logs import follow_log
from talos.talosctl.web.server import PageServer
from talos.talosctl.web.view import View, fetch_view


@dataclass(slots=True)
class Nodes:
    """The nodes of a target, which is selected anew for each look: a pod's certificate is replaced."""

    select: Callable[[], Target]
    _target: Target | None = None
    _known: Sequence[str] = ()

    def target(self) -> Target:
        """How nodes are reached now, as before while that can't be read; UserError when it never could."""
        try:
            self._target = self.select()
        except UserError:
            if self._target is None:
                raise
        return self._target

    async def find(self) -> Sequence[str]:
        """Their addresses, as before while no endpoint answers; UserError when none has ever answered."""
        try:
            target = self.target()
            if any(is_name(node) for node in target.nodes):
                target = await resolve_nodes(target)
            self._known = need_nodes(target)
        except UserError:
            # An endpoint may be down for a while, which the page shows.
            if not self._known:
                raise
        return self._known

    async def fetch_view(self, node: str, before: View | None) -> View:
        """A node now."""
        return await fetch_view(self.target(), node, before)

    def follow(self, node: str) -> AsyncGenerator[dict[str, Any]]:
        """What a node reports, as it happens."""
        return follow_events(self.target(), node)

    def follow_log(self, node: str, name: str) -> AsyncGenerator[dict[str, Any]]:
        """A log of a node, as it grows."""
        return follow_log(self.target(), node, name)


def make_fleet(nodes: Nodes) -> FleetWatch:
    """What the page shows of all of them."""
    return FleetWatch(nodes.fetch_view, nodes.find, cluster=nodes.target().context)


async def run_page(nodes: Nodes, host: str, port: int, show: Callable[[str], None]) -> None:
    """Look at the nodes and serve the page until cancelled; ``show`` gets its address. UserError."""
    await nodes.find()
    fleet = make_fleet(nodes)
    server, address = await PageServer(fleet, nodes.follow, nodes.follow_log).start(host, port)
    show(address)
    async with server, asyncio.TaskGroup() as group:
        group.create_task(fleet.run())
        group.create_task(server.serve_forever())
