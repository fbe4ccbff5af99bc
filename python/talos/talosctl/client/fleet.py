"""``talosctl upgrade`` of several nodes: what forbids it, the order, what became of each."""

import json
from contextlib import nullcontext
from functools import partial

from talos.api.common.common_pb2 import ContainerdInstance
from talos.api.machine.machine_pb2 import RebootRequest, UpgradeRequest
from talos.fleet.engine import Fleet, UpgradeOptions
from talos.fleet.plan import FleetLimits, Plan, parse_unavailable
from talos.fleet.progress import FleetProgress
from talos.system.errors import UserError
from talos.talosctl.cli.command import Invocation
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fleet_calls import FreshCalls, find_plan
from talos.talosctl.client.power import make_drainer
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console, fleet
from talos.talosctl.output.yaml_text import dump_yaml
from talos.upgrade.release.manifest import find_version


def run_fleet(
    invocation: Invocation,
    containerd: ContainerdInstance,
    mode: RebootRequest.Mode,
    old: UpgradeRequest | None,
) -> int:
    """Upgrade the nodes of the command line; the exit code is 0 when all of them run the release."""
    flags = invocation.flags
    image, force = flags.text("image"), old is not None and old.force
    drainer = make_drainer(flags)

    async def main() -> int:
        target = await find_target(flags)
        nodes, calls = need_nodes(target), FreshCalls(target)
        options = UpgradeOptions(
            image=image,
            version=find_version(image),
            containerd=containerd,
            mode=mode,
            old=old,
            timeout=flags.seconds("timeout") or float("inf"),
            around_boot=partial(drainer.around_boot, target) if drainer else nullcontext,
        )
        plan = await find_plan(calls, nodes, version=options.version, force=force)
        limits = make_limits(flags, plan)
        show_plan(plan)
        with fleet.following(is_plain=flags.text("progress") == "plain") as watcher:
            upgrade = Fleet(calls=calls, plan=plan, options=options, limits=limits, watcher=watcher)
            fleet.begin(watcher, upgrade.progress)
            try:
                await upgrade.run()
            finally:
                if isinstance(watcher, fleet.LiveRows):
                    watcher.stop()
                show(upgrade.progress, flags.text("output"))
                if drainer:
                    drainer.show_cordoned()
        return 0 if upgrade.progress.has_succeeded else 1

    return run_async(main())


def make_limits(flags: Flags, plan: Plan) -> FleetLimits:
    """How many workers at once."""
    parallel = flags.number("parallel")
    if parallel < 1:
        raise UserError("has to be 1 or more", where="--parallel")
    text = flags.text("max-unavailable")
    downtime = parse_unavailable(text, len(plan.workers)) if text else parallel
    return FleetLimits(parallel=parallel, unavailable=downtime)


def show_plan(plan: Plan) -> None:
    """The order, and what is unhealthy now."""
    console.note(f"in this order: {', '.join(status.name for status in plan.nodes)}")
    for status in plan.nodes:
        if problems := plan.problems.get(status.node):
            console.note(
                f"WARNING: {status.node}: unhealthy before, so not waited for: {'; '.join(problems.values())}"
            )


def show(progress: FleetProgress, form: str) -> None:
    """What became of each node, and why it ended before its end."""
    if form == "table":
        console.write(fleet.format_rows(progress))
    else:
        document = progress.document()
        console.write(json.dumps(document, indent=2) + "\n" if form == "json" else dump_yaml(document))
    console.flush()
    if progress.reason:
        console.note(f"error: stopped: {progress.reason}")
