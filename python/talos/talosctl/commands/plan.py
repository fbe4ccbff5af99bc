"""``talosctl plan``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.kubernetes.client import KubernetesError
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.exit import Exit
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.failure import find_exit
from talos.talosctl.client.fanout import Outcome, call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.fleet_calls import find_plan
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.client.nodes import resolve_nodes
from talos.talosctl.client.select import select_target
from talos.talosctl.commands.upgrade import find_archive
from talos.talosctl.output import console
from talos.talosctl.output.plan import format_plan
from talos.talosctl.output.yaml_text import dump_yaml
from talos.talosctl.plan.checks import find_checks
from talos.talosctl.plan.configs import choose_files, find_files, get_role, plan_config
from talos.talosctl.plan.expected import ExpectedDuration, expect_release, find_order
from talos.talosctl.plan.model import ClusterPlan, NodePlan, Reboot, Subject
from talos.talosctl.plan.pods import find_pods
from talos.talosctl.plan.state import VERSION
from talos.upgrade.release.manifest import find_version

SUBJECTS = ("file", "image", "kubernetes")


def run_plan(invocation: Invocation) -> int:
    """Show what would change; the exit code is whether something would."""
    flags = invocation.flags
    if not any(flags.is_given(name) for name in SUBJECTS):
        raise UserError("name one of them", where="--file, --image, --kubernetes")
    files = find_files(Path(flags.text("file"))) if flags.is_given("file") else dict[str, Path]()
    if flags.is_given("image") and find_archive(flags.text("image")):
        raise UserError("is a file, which is sent to one node only", where="--image", hint="use a registry")
    if flags.number("parallel") < 1:
        raise UserError("has to be 1 or more", where="--parallel")

    async def main() -> int:
        target = select_target(flags)
        is_all = not flags.is_given("nodes")
        target = await resolve_nodes(replace(target, nodes=("@all",)) if is_all else target)
        try:
            async with open_session(target) as session:
                return await _show(flags, session, await _plan(flags, session, target, files, is_all=is_all))
        except (RpcError, KubernetesError) as error:
            is_node = isinstance(error, RpcError)
            text = describe(error, target) if is_node else f"the Kubernetes API: {error}"
            console.note(f"error: {text}")
            return find_exit(error)

    return run_async(main())


async def _plan(
    flags: Flags, session: Session, target: Target, files: Mapping[str, Path], *, is_all: bool
) -> tuple[ClusterPlan, Sequence[Outcome[NodePlan]]]:
    nodes = need_nodes(target)
    if flags.is_given("file"):
        return await _plan_configs(session, nodes, Path(flags.text("file")), files, is_all=is_all)
    if flags.is_given("kubernetes"):
        # It brings its own modules.
        from talos.talosctl.plan.kubernetes import plan_images, plan_steps

        version = flags.text("kubernetes").removeprefix("v")
        steps = await plan_steps(session, nodes[0], version)
        outcomes = await plan_images(session, nodes[0], version)
        planned = _values(outcomes)
        order = [[node.node] for node in planned if node.is_changed]
        plan = ClusterPlan(
            subject=Subject.KUBERNETES, nodes=planned, version=version, steps=steps, order=order
        )
        return plan, outcomes
    return await _plan_release(flags, session, nodes), []


async def _plan_configs(
    session: Session, nodes: Sequence[str], folder: Path, found: Mapping[str, Path], *, is_all: bool
) -> tuple[ClusterPlan, Sequence[Outcome[NodePlan]]]:
    plan = await find_plan(SessionCalls(session), nodes, force=True, what="plan")
    files = choose_files(folder, found, plan.nodes, has_all=is_all)
    statuses = {status.node: status for status in plan.nodes}
    if without := [status.name for status in plan.nodes if status.node not in files]:
        console.note(f"WARNING: {folder}: no config for {', '.join(without)}")

    async def call(session: Session, node: str) -> NodePlan:
        planned = await plan_config(session, statuses[node], files[node])
        return replace(planned, problems=list(plan.problems.get(node, {}).values()))

    outcomes = await call_nodes(session, [node for node in statuses if node in files], call)
    planned = _values(outcomes)
    changed = [node.node for node in planned if node.is_changed]
    order = find_order(plan, changed, parallel=1)
    return ClusterPlan(subject=Subject.CONFIG, nodes=planned, order=order), outcomes


async def _plan_release(flags: Flags, session: Session, nodes: Sequence[str]) -> ClusterPlan:
    image = flags.text("image")
    version, unavailable = find_version(image), flags.text("max-unavailable")
    plan = await find_plan(SessionCalls(session), nodes, version=version, what="plan")
    parallel = flags.number("parallel")
    changed = [status.node for status in plan.nodes if status.version != version]
    order = find_order(plan, changed, parallel=parallel, unavailable=unavailable)
    pods, checks = await find_pods(session, changed), await find_checks(session, changed)
    return ClusterPlan(
        subject=Subject.RELEASE,
        version=version,
        image=image,
        parallel=parallel,
        order=order,
        max_unavailable=unavailable,
        nodes=[
            NodePlan(
                node=status.node,
                hostname=status.hostname,
                role=get_role(status),
                before={VERSION: status.version},
                is_changed=status.node in changed,
                reboot=Reboot.INCLUDED if status.node in changed else Reboot.NONE,
                changes=[f"{status.version} -> {version or image}"] if status.node in changed else [],
                pods=list(pods.get(status.node, {})),
                checks=checks.get(status.node, ()),
                warnings=[f"{pod} stays: {why}" for pod, why in pods.get(status.node, {}).items() if why],
                problems=list(plan.problems.get(status.node, {}).values()),
                expected=expect_release(status, moves_pods=bool(pods.get(status.node)))
                if status.node in changed
                else ExpectedDuration(),
            )
            for status in plan.nodes
        ],
    )


async def _show(
    flags: Flags, session: Session, planned: tuple[ClusterPlan, Sequence[Outcome[NodePlan]]]
) -> int:
    plan, outcomes = planned
    if code := report_failures(session, outcomes):
        return code
    form, document = flags.text("output"), plan.document()
    if form == "json":
        console.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        console.write(format_plan(plan) if form == "text" else dump_yaml(document))
    return Exit.CHANGES if plan.changed else Exit.DONE


def _values(outcomes: Sequence[Outcome[NodePlan]]) -> list[NodePlan]:
    return [outcome.value for outcome in outcomes if outcome.value is not None]


COMMAND = Command(
    name="plan",
    summary="Show what configs, a release or a version of Kubernetes would change on each node",
    details=(
        "Shows for each node of the cluster, in their order, what a folder of configs, a release or a "
        "version of Kubernetes would change, whether the node reboots, its disks before and after, and how "
        "long it may take. The nodes themselves check it; nothing is changed. Secrets are not shown. The "
        "exit code is 0 when there is nothing to change, and 6 when there is.\n\nIn the folder a config has "
        "the name of its node, its address, or is controlplane.yaml or worker.yaml for all other nodes of "
        "the role. What --output json or yaml writes is carried out by talosctl apply --plan, which refuses "
        "when a node or a file was changed in between."
    ),
    example=(
        "talosctl plan --file configs/\n"
        "talosctl plan --image registry.example.org/installer:v1.15.1 --output json > plan.json\n"
        "talosctl apply --plan plan.json"
    ),
    flags=(
        *CLIENT_FLAGS,
        Flag(name="file", short="f", help="a folder of configs"),
        Flag(name="image", short="i", help="a release: an image in a registry"),
        Flag(name="kubernetes", help="a version of Kubernetes"),
        Flag(
            name="parallel",
            type=Type.UINT16,
            default="1",
            help="with --image: how many workers at once; control plane nodes go one at a time",
        ),
        Flag(
            name="max-unavailable",
            help="with --image: how many workers may be down at once, or a share such as 25%",
        ),
        Flag(
            name="output",
            short="o",
            choices=("text", "json", "yaml"),
            default="text",
            help="how to show the plan",
        ),
    ),
    exclusive=(SUBJECTS, ("file", "parallel"), ("kubernetes", "parallel")),
    run=run_plan,
)
