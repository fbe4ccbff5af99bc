"""``talosctl dashboard``."""

import sys

from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS
from talos.talosctl.client.select import find_target

MIN_INTERVAL = 0.5
"""Seconds; more frequent requests would measure themselves."""


def run_dashboard(invocation: Invocation) -> int:
    """Show nodes in the terminal, or to a browser, until the reader leaves."""
    if invocation.flags.is_set("web"):
        # A terminal needs nothing of it.
        from talos.talosctl.web.command import serve_page

        return run_async(serve_page(invocation.flags))
    target = run_async(find_target(invocation.flags))
    nodes = need_nodes(target)
    interval = invocation.flags.seconds("update-interval")
    if interval < MIN_INTERVAL:
        raise UserError(f"{interval:g} s is too short", where="--update-interval", hint="use 500ms or more")
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UserError(
            "the dashboard needs a terminal",
            hint="`talosctl get`, `processes`, `memory` and `logs` say the same to programs",
        )
    from talos.talosctl.dashboard.app import Dashboard

    app = Dashboard(target, nodes, interval)
    app.run()
    return app.return_code or 0


COMMAND = Command(
    name="dashboard",
    summary="Show figures, processes, logs and the network of nodes in the terminal",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        Flag(
            name="update-interval",
            short="d",
            type=Type.DURATION,
            default="3s",
            help="time between two samples of the figures",
        ),
        Flag(
            name="web",
            type=Type.BOOL,
            default="false",
            help="serve a page for a browser on this machine instead, of all nodes unless some are named",
        ),
        Flag(
            name="listen",
            default="127.0.0.1:0",
            help="with --web: the address, of the loopback interface; port 0 is a free one",
        ),
    ),
    run=run_dashboard,
)
