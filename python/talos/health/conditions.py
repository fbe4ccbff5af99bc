"""The health of a cluster: conditions, each checked on the nodes that it is about.

Nodes check it among each other, and the client does from outside. How calls reach a node is theirs, and so is
the event loop: nothing here waits but for what is passed in.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.definitions.enums_pb2 import RuntimeMachineStage
from talos.api.machine import machine_pb2 as machine
from talos.api.machine_types import is_control_plane
from talos.api.rpc import Code, RpcError
from talos.health import kubernetes
from talos.health.calls import SERVICE, SKIPPED, ClusterCalls, ClusterNodes, Condition, NodeCalls
from talos.resource import kinds

POLL_INTERVAL = 1.0
"""Seconds between two rounds of a condition."""


def find_address(member: MemberSpec) -> str:
    """A member's first address, without the zone that may follow it; empty while it has none."""
    return str(ip_address(member.addresses[0].ip[:16])) if member.addresses else ""


def sort_members(members: Sequence[MemberSpec]) -> ClusterNodes:
    """The nodes among discovered members, each by its first address."""
    control_plane: list[str] = []
    workers: list[str] = []
    for member in members:
        if address := find_address(member):
            (control_plane if is_control_plane(member.machine_type) else workers).append(address)
    return ClusterNodes(control_plane=control_plane, workers=workers)


async def wait_for_health(
    calls: ClusterCalls,
    nodes: ClusterNodes,
    *,
    seconds: float,
    report: Callable[[str], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]],
    describe: Callable[[RpcError], str] = lambda error: error.reason,
) -> None:
    """Wait for one condition after the other; DEADLINE_EXCEEDED names the one that is not met in time."""
    end, last = time.monotonic() + seconds, ""

    async def show(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            await report(text)

    for name, condition in CONDITIONS.items():
        await show(f"waiting for {name}: ...")
        while (problem := await _try(condition, calls, nodes, describe)) not in {"", SKIPPED}:
            await show(f"waiting for {name}: {problem}")
            if time.monotonic() > end:
                raise RpcError(Code.DEADLINE_EXCEEDED, f"not healthy within {seconds:g} s: {last}")
            await sleep(POLL_INTERVAL)
        await show(f"waiting for {name}: {problem or 'OK'}")


async def _try(
    condition: Condition, calls: ClusterCalls, nodes: ClusterNodes, describe: Callable[[RpcError], str]
) -> str:
    try:
        return await condition(calls, nodes)
    except RpcError as error:
        # A certificate without the role will not get one by waiting.
        if error.code in {Code.PERMISSION_DENIED, Code.UNAUTHENTICATED}:
            raise
        return describe(error)


def each(check: Callable[[NodeCalls, str], Awaitable[str]], *, is_control_plane: bool = False) -> Condition:
    """A condition of every node, or of every control plane node: the first problem that one has."""

    async def condition(calls: ClusterCalls, nodes: ClusterNodes) -> str:
        found = SKIPPED
        for node in nodes.control_plane if is_control_plane else nodes.all:
            problem = await check(calls, node)
            if problem not in {"", SKIPPED}:
                return f"{node}: {problem}"
            found = problem if found == SKIPPED else found
        return found

    return condition


def service(id: str, *, is_optional: bool = False) -> Callable[[NodeCalls, str], Awaitable[str]]:
    """A service runs and its last health check found nothing; an optional one need not be there."""

    async def check(calls: NodeCalls, node: str) -> str:
        reply = await calls.unary(node, SERVICE + "ServiceList", Empty(), machine.ServiceListResponse)
        services = {one.id: one for message in reply.messages for one in message.services}
        if id not in services:
            return SKIPPED if is_optional else f'service "{id}" is not there'
        found = services[id]
        if found.state != "Running":
            return f'service "{id}" is {found.state}'
        if found.health.unknown or not found.health.healthy:
            return f'service "{id}" is not healthy: {found.health.last_message or "no check yet"}'
        return ""

    return check


async def _members(calls: NodeCalls, node: str) -> dict[int, machine.EtcdMember]:
    request = machine.EtcdMemberListRequest()
    reply = await calls.unary(node, SERVICE + "EtcdMemberList", request, machine.EtcdMemberListResponse)
    return {member.id: member for message in reply.messages for member in message.members}


async def check_members_agree(calls: ClusterCalls, nodes: ClusterNodes) -> str:
    """Every control plane node names the same members of etcd."""
    first = await _members(calls, nodes.control_plane[0])
    for node in nodes.control_plane[1:]:
        if (await _members(calls, node)).keys() != first.keys():
            return f"{node} and {nodes.control_plane[0]} name different members"
    return ""


async def check_members_are_nodes(calls: ClusterCalls, nodes: ClusterNodes) -> str:
    """Every member of etcd is a control plane node, and each of those is a member."""
    members = await _members(calls, nodes.control_plane[0])
    for member in members.values():
        hosts = {url.partition("://")[2].rpartition(":")[0].strip("[]") for url in member.peer_urls}
        if not hosts & set(nodes.control_plane):
            return f'the member "{member.hostname}" ({", ".join(sorted(hosts))}) is no control plane node'
    if len(members) < len(nodes.control_plane):
        return f"etcd has {len(members)} members for {len(nodes.control_plane)} control plane nodes"
    return ""


async def check_version(calls: NodeCalls, node: str) -> str:
    """The API answers."""
    reply = await calls.unary(node, SERVICE + "Version", Empty(), machine.VersionResponse)
    return "" if reply.messages else "no answer"


async def check_diagnostics(calls: NodeCalls, node: str) -> str:
    """The node reports no mistake of its configuration."""
    return ", ".join(spec.message for spec in await calls.specs(node, kinds.DIAGNOSTIC))


async def check_boot(calls: NodeCalls, node: str) -> str:
    """The boot has ended and nothing is missing."""
    for status in await calls.specs(node, kinds.MACHINE_STATUS):
        if status.stage != RuntimeMachineStage.MACHINE_STAGE_RUNNING:
            return "the boot has not ended"
        unmet = ", ".join(f"{one.name}: {one.reason}" for one in status.status.unmet_conditions)
        return f"the machine is not ready: {unmet}" if unmet else ""
    return "the machine has no status yet"


CONDITIONS: dict[str, Condition] = {
    "etcd to be healthy": each(service("etcd"), is_control_plane=True),
    "etcd members to be consistent across nodes": check_members_agree,
    "etcd members to be control plane nodes": check_members_are_nodes,
    "apid to be ready": each(check_version),
    "no diagnostics": each(check_diagnostics),
    "kubelet to be healthy": each(service("kubelet", is_optional=True)),
    "all nodes to finish boot sequence": each(check_boot),
    **kubernetes.CONDITIONS,
}
"""In the order in which they are waited for."""
