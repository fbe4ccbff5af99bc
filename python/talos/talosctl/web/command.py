"""``talosctl dashboard --web``."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from talos.serving.address import parse_address
from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.command import need_nodes
from talos.talosctl.client.nodes import resolve_nodes
from talos.talosctl.client.select import find_target, select_target
from talos.talosctl.output import console
from talos.talosctl.web.events import follow_events
from talos.talosctl.web.fleet import FleetWatch
from talos.talosctl.web.look import View, look_at
from talos.talosctl.web.server import PageServer, check_loopback


async def serve_page(flags: Flags) -> int:
    """Look at the nodes and serve the page until it is interrupted; UserError."""
    if flags.is_set("insecure"):
        raise UserError("has no page: a node in maintenance belongs to no cluster", where="--insecure")
    host, port = parse_address(flags.text("listen"), "--listen", "127.0.0.1:8080")
    host = check_loopback(host, "--listen")
    target = select_target(flags)
    known: Sequence[str] = ()

    async def find_nodes() -> Sequence[str]:
        nonlocal known
        try:
            everywhere = replace(target, nodes=("@all",))
            found = await (find_target(flags) if flags.is_given("nodes") else resolve_nodes(everywhere))
            known = need_nodes(found)
        except UserError:
            # An endpoint may be down for a while, which the page shows.
            if not known:
                raise
        return known

    async def look(node: str, before: View | None) -> View:
        return await look_at(target, node, before)

    await find_nodes()
    fleet = FleetWatch(look, find_nodes, cluster=target.context)
    server, address = await PageServer(fleet, partial(follow_events, target)).start(host, port)
    console.note(f"{address}\nopen this address in a browser on this machine; Ctrl+C ends it")
    async with server, asyncio.TaskGroup() as group:
        group.create_task(fleet.run())
        group.create_task(server.serve_forever())
    return 0
