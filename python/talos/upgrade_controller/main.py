"""``upgrade-controller``: keeps the nodes of a cluster at the release of a channel."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from talos.fleet.calls import FleetCalls
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.fleet_calls import FreshCalls
from talos.talosctl.client.select import select_target
from talos.talosctl.output.table import format_table
from talos.talosctl.output.yaml_text import dump_yaml
from talos.upgrade_controller.config import Settings, load_settings
from talos.upgrade_controller.controller import UpgradeController
from talos.upgrade_controller.status import HELD, as_object, read_status, write_status

PROGRAM = "upgrade-controller"
_EPILOG = """\
The certificate needs the role os:upgrade and no other:
  talosctl config new --roles os:upgrade --crt-ttl 8760h upgrade.talosconfig

A config:
  channel:
    image: registry.example.org/installer:stable
    keys: [release.pub]
  talosconfig: upgrade.talosconfig
  windows:
    - {days: [sat, sun], from: "22:00", to: "04:00", timeZone: Europe/Berlin}
  parallel: 2
  maxUnavailable: 25%
  status: status.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    options = _parse(argv)
    try:
        return options.run(options)
    except (UserError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def connect(settings: Settings) -> FleetCalls:
    """Calls to the nodes that the talosconfig leads to."""
    flags = Flags(CLIENT_FLAGS)
    rows = {flag.name: flag for flag in CLIENT_FLAGS}
    flags.set(rows["talosconfig"], str(settings.talosconfig))
    if settings.config.context:
        flags.set(rows["context"], settings.config.context)
    return FreshCalls(select_target(flags))


def run(options: argparse.Namespace) -> int:
    """Follow the channel until stopped, or once."""
    load_settings(options.config)
    controller = UpgradeController(path=options.config, connect=connect, log=Log({"service": PROGRAM}))
    return asyncio.run(_run(controller, once=options.once))


async def _run(controller: UpgradeController, *, once: bool) -> int:
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(controller.run_once() if once else controller.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    try:
        return 0 if await work else 1
    except asyncio.CancelledError:
        return 0


def check(options: argparse.Namespace) -> int:
    """Read the config and what it names."""
    settings = load_settings(options.config)
    connect(settings)
    sys.stdout.write(f"{options.config}: valid\n")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print the last status."""
    document = read_status(load_settings(options.config).status)
    if not document:
        raise UserError("has not been written yet", where="status", hint="start it: upgrade-controller run")
    if options.output == "table":
        sys.stdout.write(format_status(document))
    else:
        text = f"{json.dumps(document, indent=2)}\n" if options.output == "json" else dump_yaml(document)
        sys.stdout.write(text)
    return 0


def format_status(document: dict[str, Any]) -> str:
    """A status for a person."""
    release = str(as_object(document.get("release")).get("version", ""))
    state, reason, channel, written = (
        str(document.get(key, "")) for key in ("state", "reason", "channel", "time")
    )
    head = [("STATE", "CHANNEL", "RELEASE", "TIME", "REASON"), (state, channel, release, written, reason)]
    nodes = map(as_object, cast("list[object]", document.get("nodes") or []))
    keys = ("node", "hostname", "version", "step")
    rows = [tuple(map(str.upper, keys)), *(tuple(str(node.get(key, "")) for key in keys) for node in nodes)]
    return f"{format_table(head)}\n{format_table(rows)}"


def retry(options: argparse.Namespace) -> int:
    """Have a release that has failed tried again."""
    path = load_settings(options.config).status
    document = read_status(path)
    if document.get("state") != HELD:
        raise UserError("no release is held back", where=str(path))
    write_status(path, {**document, "held": {}})
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Keep the nodes of a cluster at the release of a channel, within maintenance windows.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    for name, action, text in (
        ("run", run, "follow the channel"),
        ("status", show, "show how far it is"),
        ("retry", retry, "try a release again that has failed"),
        ("check", check, "check the config"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=action)
        command.add_argument("--config", type=Path, required=True, help="the controller's config, YAML")
        if name == "run":
            command.add_argument("--once", action="store_true", help="look once, upgrade if need be, and end")
        if name == "status":
            command.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
