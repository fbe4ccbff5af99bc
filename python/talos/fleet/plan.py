"""The order of an upgrade, and what forbids it before the first node is touched."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import RpcError
from talos.fleet.calls import MACHINE, FleetCalls, NodeStatus, fetch_status, repeat_lost
from talos.fleet.health import find_problems
from talos.system.errors import UserError
from talos.upgrade.release.manifest import check_version
from talos.upgrade.state import Phase

MAX_CONCURRENT = 16
"""Nodes that are called at the same time."""
ANSWER_TIMEOUT = 10.0
"""Seconds for a node that gives no answer to give one."""
MEMBERS_WITHOUT_SPARE = 2
"""Members of etcd of which none may be down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """Workers at once: ``parallel`` are under way, of which ``unavailable`` are down, others installed."""

    parallel: int = 1
    unavailable: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Nodes in their order. ``problems`` has what is the matter with a node before, by its address."""

    control_plane: Sequence[NodeStatus]
    workers: Sequence[NodeStatus]
    problems: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    @property
    def nodes(self) -> Sequence[NodeStatus]:
        """All of them, in their order."""
        return (*self.control_plane, *self.workers)


def parse_unavailable(text: str, workers: int, *, where: str = "--max-unavailable") -> int:
    """Nodes of ``3`` or ``25%``: of a share at least one; UserError."""
    number = text.removesuffix("%")
    if not number.isdecimal() or not 1 <= int(number) <= (100 if text.endswith("%") else 1 << 16):
        hint = "write a number of nodes, 1 or more, or a share such as 25%"
        raise UserError(f"{text!r} is no number of nodes", where=where, hint=hint)
    return max(1, workers * int(number) // 100) if text.endswith("%") else int(number)


class PlanError(UserError):
    """What forbids a plan. ``failures`` are the calls that failed, none where anything else forbids it."""

    def __init__(self, reasons: Mapping[str, str], failures: Mapping[str, RpcError], *, where: str) -> None:
        text = "; ".join(f"{node}: {reason}" for node, reason in reasons.items())
        super().__init__(text, where=where, hint="nothing has been changed")
        self.failures = [*failures.values()] if failures.keys() == reasons.keys() else []


async def make_plan(
    calls: FleetCalls, nodes: Sequence[str], *, version: str = "", force: bool = False, what: str = "upgrade"
) -> Plan:
    """NodeStatus at all nodes; PlanError with everything that forbids an upgrade of any of them.

    ``version`` is the release's, empty where it is not known before the nodes have read it. ``what`` is
    named in errors. UserError for nodes that are named twice.
    """
    if len(set(nodes)) != len(nodes):
        twice = next(node for node in nodes if nodes.count(node) > 1)
        raise UserError(f"{twice} is named twice", where="--nodes")
    free = asyncio.Semaphore(MAX_CONCURRENT)
    refusals, failures = dict[str, str](), dict[str, RpcError]()
    statuses: dict[str, NodeStatus] = {}
    problems: dict[str, Mapping[str, str]] = {}

    async def fetch(node: str) -> None:
        async with free:
            try:
                status, problems[node] = await repeat_lost(partial(_fetch_node, calls, node), ANSWER_TIMEOUT)
                statuses[node] = status
            except RpcError as error:
                refusals[node], failures[node] = error.reason, error
            else:
                if reason := find_refusal(status, version, force=force):
                    refusals[node] = reason

    await asyncio.gather(*map(fetch, nodes))
    found = [statuses[node] for node in nodes if node in statuses]
    names = [status.hostname for status in found if status.hostname]
    for status in found:
        if names.count(status.hostname) > 1:
            refusals.setdefault(status.node, f"{status.hostname} is named by another address, too")
    plan = Plan(
        control_plane=[status for status in found if status.is_control_plane],
        workers=[status for status in found if not status.is_control_plane],
        problems=problems,
    )
    if not refusals and plan.control_plane and not force:
        refusals |= await _check_members(calls, plan.control_plane[0].node)
    if refusals:
        reasons = {node: refusals[node] for node in nodes if node in refusals}
        raise PlanError(reasons, failures, where=what)
    return plan


async def _fetch_node(calls: FleetCalls, node: str) -> tuple[NodeStatus, Mapping[str, str]]:
    """A node, and what is the matter with it; RpcError."""
    status = await fetch_status(calls, node)
    return status, await find_problems(calls, node, is_control_plane=status.is_control_plane)


def find_refusal(status: NodeStatus, version: str, *, force: bool = False) -> str:
    """Why a node that answers may not be upgraded to a version, empty when it may."""
    state = status.upgrade
    if state is None:
        return "its META is not read yet"
    if state.phase is Phase.TRIAL:
        return f"{state.version} is on trial: wait for its self-check to end"
    if not version or status.version == version:
        return ""
    return "; ".join(check_version(version, running=status.version, force=force))


async def _check_members(calls: FleetCalls, node: str) -> Mapping[str, str]:
    """The verdict of etcd before the first of its nodes goes away; the node checks again, under a lock."""
    request, reply_type = machine.EtcdMemberListRequest(), machine.EtcdMemberListResponse
    method = MACHINE + "EtcdMemberList"
    try:
        reply = await repeat_lost(lambda: calls.unary(node, method, request, reply_type), ANSWER_TIMEOUT)
    except RpcError as error:
        return {node: f"etcd: {error.reason}"}
    members = [member for message in reply.messages for member in message.members]
    if len(members) == MEMBERS_WITHOUT_SPARE:
        return {
            node: f"etcd has {MEMBERS_WITHOUT_SPARE} members, both of which have to be up: add a third one"
        }
    if learners := [member.hostname or f"{member.id:016x}" for member in members if member.is_learner]:
        return {node: f"{', '.join(learners)} can't vote in etcd yet"}
    return {}
