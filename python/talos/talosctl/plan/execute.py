"""``talosctl apply --plan``: carries out a plan, and does nothing else."""

import asyncio

from talos.api.machine.machine_pb2 import ApplyConfigurationRequest
from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.fleet import calls
from talos.fleet.health import find_problems
from talos.system.files import read_file
from talos.talosctl.cli.exit import CommandError, Exit
from talos.talosctl.cli.flag import Flags
from talos.talosctl.cli.parse import parse
from talos.talosctl.client.change import send_config, show_result
from talos.talosctl.client.command import run_async
from talos.talosctl.client.failure import find_exit
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.client.select import select_target
from talos.talosctl.output import console
from talos.talosctl.plan.configs import ROLES
from talos.talosctl.plan.expected import HEALTHY_TIMEOUT, STEADY
from talos.talosctl.plan.model import ClusterPlan, NodePlan, Reboot, Subject, parse_plan
from talos.talosctl.plan.state import check_unchanged, read_planned
from talos.talosctl.tree import ROOT

_CLIENT_FLAGS = ("talosconfig", "context", "cluster", "siderov1-keys-dir")


def run_plan(flags: Flags) -> int:
    """Carry out the plan of ``--plan``; the exit code."""
    path = flags.text("plan")
    plan = parse_plan(read_file(path), path)
    if not plan.changed:
        console.note(f"{path}: it changes nothing")
        return Exit.DONE
    if code := run_async(_check(flags, plan)):
        return code
    if plan.subject is Subject.CONFIG:
        return run_async(_apply_configs(flags, plan))
    invocation = parse(ROOT, make_argv(flags, plan))
    assert invocation.command.run is not None
    return invocation.command.run(invocation)


def make_argv(flags: Flags, plan: ClusterPlan) -> list[str]:
    """The command that carries out the plan of a release or of a version of Kubernetes."""
    client = [f"--{name}={flags.text(name)}" for name in _CLIENT_FLAGS if flags.is_given(name)]
    client += [f"--endpoints={','.join(flags.texts('endpoints'))}"] if flags.is_given("endpoints") else []
    if plan.subject is Subject.KUBERNETES:
        first = next(node.node for node in plan.nodes if node.role == ROLES[0])
        return ["upgrade-k8s", *client, f"--nodes={first}", f"--to={plan.version}"]
    nodes = ",".join(node.node for node in plan.nodes)
    limits = [f"--parallel={plan.parallel}"]
    limits += [f"--max-unavailable={plan.max_unavailable}"] if plan.max_unavailable else []
    return ["upgrade", *client, f"--nodes={nodes}", f"--image={plan.image}", *limits]


async def _check(flags: Flags, plan: ClusterPlan) -> int:
    for node in plan.changed if plan.subject is Subject.CONFIG else ():
        read_planned(node)
    async with open_session(select_target(flags)) as session:
        return await check_unchanged(session, plan.nodes, plan.subject)


async def _apply_configs(flags: Flags, plan: ClusterPlan) -> int:
    """One node after the other, each as healthy as before, up to the first that is not."""
    target = select_target(flags)
    async with open_session(target) as session:
        for number, node in enumerate(plan.changed):
            try:
                await _apply_config(session, node)
            except (RpcError, CommandError) as error:
                left = len(plan.changed) - number - 1
                rest = f"; unchanged nodes behind it: {left}" if left else ""
                console.note(f"error: {node.name}: {describe(error, target)}{rest}")
                return find_exit(error)
    if waiting := [node.name for node in plan.changed if node.reboot is Reboot.NEEDED]:
        console.note(f"a part takes effect at the next reboot of {', '.join(waiting)}")
    return Exit.DONE


async def _apply_config(session: Session, node: NodePlan) -> None:
    known = await find_problems(SessionCalls(session), node.node, is_control_plane=node.role == ROLES[0])
    # Time has passed since all nodes were compared.
    if code := await check_unchanged(session, [node], Subject.CONFIG):
        raise CommandError("its config can't be fetched", code=Exit(code))
    request = ApplyConfigurationRequest(data=read_planned(node), mode=ApplyConfigurationRequest.AUTO)
    results = await send_config(session, node.node, request)
    show_result(node.node, results, is_many=True)
    await _wait_until_healthy(session, node, set(known))


async def _wait_until_healthy(session: Session, node: NodePlan, known: set[str]) -> None:
    """CommandError when the node has a new problem to the end."""
    steady, text = 0, ""
    try:
        async with asyncio.timeout(HEALTHY_TIMEOUT):
            while steady < STEADY:
                await asyncio.sleep(calls.POLL_INTERVAL)
                before, text = text, await _find_new_problem(session, node, known)
                steady = 0 if text else steady + 1
                if text not in ("", before):
                    console.note(f"{node.name}: waits: {text}")
    except TimeoutError:
        reason = f"not healthy after {HEALTHY_TIMEOUT:g} s: {text}"
        raise CommandError(reason, code=Exit.TIMED_OUT) from None


async def _find_new_problem(session: Session, node: NodePlan, known: set[str]) -> str:
    try:
        is_control_plane = node.role == ROLES[0]
        found = await find_problems(SessionCalls(session), node.node, is_control_plane=is_control_plane)
    except RpcError as error:
        return error.reason
    return next((text for about, text in found.items() if about not in known), "")
