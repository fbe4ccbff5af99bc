"""``talosctl conformance``."""

import asyncio
import signal
from pathlib import Path

from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.client.command import run_async
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.health import find_nodes
from talos.talosctl.client.kubeconfig import connect
from talos.talosctl.kubernetes.command import run_on_cluster
from talos.talosctl.kubernetes.conformance import MODES, Conformance, find_runner
from talos.talosctl.output import console

TERMINATED = 128 + signal.SIGTERM
"""What a shell reports for a program ended by SIGTERM."""


def run_kubernetes(invocation: Invocation) -> int:
    """Run a pass of tests after the other; 1 when one fails."""
    flags = invocation.flags
    mode = flags.text("mode")
    if mode not in MODES:
        raise UserError(
            f"unsupported conformance mode {mode}", where="--mode", hint=f"use {' or '.join(MODES)}"
        )

    async def test(session: Session, node: str) -> None:
        nodes = await find_nodes(session, node)
        client = await connect(session, nodes.control_plane[0], "")
        image = flags.text("image") or await find_runner(client)
        await Conformance(session, client, image, console.report).run(mode, Path(flags.text("results")))

    async def main() -> int:
        # As an interrupt does, so that what was made is removed.
        if (task := asyncio.current_task()) is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run_on_cluster(flags, "conformance", test)

    try:
        return run_async(main())
    except asyncio.CancelledError:
        return TERMINATED


COMMAND = Command(
    name="conformance",
    summary="Run conformance tests on the cluster",
    inherited=CLIENT_FLAGS,
    commands=(
        Command(
            name="kubernetes",
            aliases=("k8s",),
            summary="Run Kubernetes' conformance tests",
            details=(
                "Runs an image of Kubernetes' end-to-end tests as a pod with all rights, shows its log and "
                "copies its results. The mode fast runs most tests in parallel and the others afterwards, "
                "certified one after another, as the certification demands. Whatever was made for it "
                "is removed in the end, also after an interrupt. The node that is named leads to the others."
            ),
            flags=(
                Flag(
                    name="image",
                    help="the runner's image, if not registry.k8s.io/conformance of the cluster's version",
                ),
                Flag(name="mode", default="fast", help=f"the mode of the tests: {' or '.join(MODES)}"),
                Flag(name="results", default="conformance", help="the folder for the results"),
            ),
            run=run_kubernetes,
        ),
    ),
)
