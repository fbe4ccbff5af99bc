"""``talosctl dashboard --web``."""

from dataclasses import replace

from talos.serving.address import parse_address
from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.select import select_target
from talos.talosctl.output import console
from talos.talosctl.web.nodes import Nodes, run_page
from talos.talosctl.web.server import check_loopback


async def serve_page(flags: Flags) -> int:
    """Look at the nodes and serve the page until it is interrupted; UserError."""
    if flags.is_set("insecure"):
        raise UserError("has no page: a node in maintenance belongs to no cluster", where="--insecure")
    host, port = parse_address(flags.text("listen"), "--listen", "127.0.0.1:8080")
    host = check_loopback(host, "--listen")
    target = select_target(flags)
    if not flags.is_given("nodes"):
        target = replace(target, nodes=("@all",))

    def show(address: str) -> None:
        console.note(f"{address}\nopen this address in a browser on this machine; Ctrl+C ends it")

    await run_page(Nodes(lambda: target), host, port, show)
    return 0
