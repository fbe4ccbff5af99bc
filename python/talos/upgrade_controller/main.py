"""``upgrade-controller``: keeps the nodes of a cluster at the release of a channel."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from talos.client.target import Target
from talos.fleet.calls import FleetCalls
from talos.kubernetes.access import find_pod_access, find_pod_namespace
from talos.kubernetes.client import KubernetesClient
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.fleet_calls import FreshCalls
from talos.talosctl.client.select import select_target
from talos.talosctl.metrics.server import make_answer
from talos.talosctl.output.http import start_server
from talos.talosctl.output.table import format_table
from talos.talosctl.output.yaml_text import dump_yaml
from talos.talosctl.web.nodes import Nodes
from talos.upgrade_controller.config import ClientAccess, load_settings
from talos.upgrade_controller.controller import UpgradeController
from talos.upgrade_controller.manifests import (
    METRICS_PORT,
    NAMESPACE,
    PAGE_PORT,
    PROGRAM,
    format_manifests,
)
from talos.upgrade_controller.page import run_page_in_pod
from talos.upgrade_controller.policies import Policies
from talos.upgrade_controller.policy_source import FilePolicySource
from talos.upgrade_controller.status import HELD, as_object, read_status, write_status

_EPILOG = """\
The certificate needs the role os:upgrade, for snapshots os:etcd:backup, too, and no other:
  talosctl config new --roles os:upgrade,os:etcd:backup --crt-ttl 8760h upgrade.talosconfig
For snapshots alone, without a channel, it needs os:reader,os:etcd:backup.

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
  snapshots:
    recipients: [age1…]
    folder: /mnt/backups

In a cluster, policies are resources of Kubernetes:
  upgrade-controller manifests --image IMAGE | kubectl apply -f -
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    options = _parse(argv)
    try:
        return options.run(options)
    except (UserError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def connect(access: ClientAccess) -> FleetCalls:
    """Calls to the nodes that a talosconfig leads to."""
    return FreshCalls(find_target(access))


def find_target(access: ClientAccess) -> Target:
    """What a talosconfig leads to; UserError."""
    flags = Flags(CLIENT_FLAGS)
    rows = {flag.name: flag for flag in CLIENT_FLAGS}
    flags.set(rows["talosconfig"], str(access.talosconfig))
    if access.context:
        flags.set(rows["context"], access.context)
    return select_target(flags)


def run(options: argparse.Namespace) -> int:
    """Follow the channel until stopped, or once."""
    load_settings(options.config)
    place, log = FilePolicySource(options.config), Log({"service": PROGRAM})
    controller = UpgradeController(place=place, connect=connect, log=log)
    return asyncio.run(_run(controller.run_all_once() if options.once else controller.run()))


def run_policies(options: argparse.Namespace) -> int:
    """Follow the policies of this pod's namespace until stopped, and serve the metrics of their snapshots."""
    policies = Policies(
        client=KubernetesClient(find_pod_access()),
        namespace=find_pod_namespace(),
        access=ClientAccess(talosconfig=options.talosconfig),
        connect=connect,
        log=Log({"service": PROGRAM}),
    )

    async def scrape() -> str:
        return policies.format_metrics()

    async def follow() -> None:
        async with await start_server(make_answer(scrape), "", METRICS_PORT):
            await policies.run()

    return asyncio.run(_run(follow()))


def serve_page(options: argparse.Namespace) -> int:
    """Serve the page of all nodes until stopped; its address is in the log."""
    access, log = ClientAccess(talosconfig=options.talosconfig), Log({"service": PROGRAM})
    nodes = Nodes(lambda: replace(find_target(access), nodes=("@all",)))

    def show(address: str) -> None:
        path = urlsplit(address).path
        service = f"/api/v1/namespaces/{NAMESPACE}/services/{PROGRAM}:page/proxy"
        log.info(f"beside `kubectl proxy`: http://127.0.0.1:8001{service}{path}")
        forward = f"kubectl port-forward --namespace {NAMESPACE} service/{PROGRAM} {PAGE_PORT}"
        log.info(f"beside `{forward}`: http://127.0.0.1:{PAGE_PORT}{path}")

    return asyncio.run(_run(run_page_in_pod(nodes, options.talosconfig, "", PAGE_PORT, show, log)))


async def _run(work: Coroutine[Any, Any, bool | None]) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        return 0 if await task else 1
    except asyncio.CancelledError:
        return 0


def check(options: argparse.Namespace) -> int:
    """Read the config and what it names."""
    settings, _ = load_settings(options.config)
    connect(settings.access)
    sys.stdout.write(f"{options.config}: valid\n")
    return 0


def show_manifests(options: argparse.Namespace) -> int:
    """Print what Kubernetes is given to run this."""
    sys.stdout.write(format_manifests(options.image, snapshots=options.snapshots))
    return 0


def show(options: argparse.Namespace) -> int:
    """Print the last status."""
    document = read_status(load_settings(options.config)[1])
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
    tables = [format_table(head), format_table(rows)]
    if snapshot := as_object(document.get("snapshot")):
        keys = ("state", "time", "name", "node", "size", "next", "reason")
        titles = ("SNAPSHOT", *map(str.upper, keys[1:]))
        tables.append(format_table([titles, tuple(str(snapshot.get(key, "")) for key in keys)]))
    return "\n".join(tables)


def retry(options: argparse.Namespace) -> int:
    """Allow a release that has failed once more."""
    path = load_settings(options.config)[1]
    document = read_status(path)
    if document.get("state") != HELD:
        raise UserError("no release is held back", where=str(path))
    write_status(path, {**document, "held": {}})
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Keep the nodes of a cluster at the release of a channel, within maintenance windows, "
        "and take encrypted snapshots of its etcd, or one of both.",
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
        command = _add(commands, name, action, text)
        command.add_argument("--config", type=Path, required=True, help="the controller's config, YAML")
        if name == "run":
            command.add_argument(
                "--once",
                action="store_true",
                help="look once, take a snapshot and upgrade if need be, and end",
            )
        if name == "status":
            command.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    for name, action, text in (
        ("policies", run_policies, "in a pod: follow the policies of its namespace"),
        ("page", serve_page, "in a pod: serve a page of all nodes"),
    ):
        command = _add(commands, name, action, text)
        command.add_argument("--talosconfig", type=Path, required=True, help="how nodes are reached")
    command = _add(commands, "manifests", show_manifests, "print what Kubernetes is given to run this")
    command.add_argument("--image", required=True, help="this program's image, where the cluster pulls it")
    command.add_argument("--snapshots", action="store_true", help="with the right to take snapshots of etcd")
    return parser.parse_args(argv)


def _add(commands: Any, name: str, action: Callable[[argparse.Namespace], int], text: str) -> Any:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=action)
    return command


if __name__ == "__main__":
    raise SystemExit(main())
