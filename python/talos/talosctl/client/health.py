"""The health of a cluster, checked from outside: each condition is asked of the nodes that it is about."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.definitions.enums_pb2 import MachineType, RuntimeMachineStage
from talos.api.definitions.runtime_pb2 import DiagnosticSpec, MachineStatusSpec
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Code, RpcError
from talos.system.errors import UserError
from talos.talosctl.client.command import parts
from talos.talosctl.client.failure import describe
from talos.talosctl.client.resources import get_resource, list_resources
from talos.talosctl.client.session import Session

PAUSE = 1.0
"""Seconds between two rounds of a condition."""
_SERVICE = "/machine.MachineService/"
_CONTROL_PLANE = (MachineType.TYPE_INIT, MachineType.TYPE_CONTROL_PLANE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The addresses of a cluster's nodes."""

    control_plane: Sequence[str]
    workers: Sequence[str]

    @property
    def all(self) -> Sequence[str]:
        """Of both kinds."""
        return (*self.control_plane, *self.workers)


type Condition = Callable[[Session, Nodes], Awaitable[str]]
"""What is wrong, empty when nothing is."""


async def find_nodes(session: Session, node: str) -> Nodes:
    """The members that a node knows of; UserError when no control plane node is among them."""
    resources = await list_resources(session, node, "cluster", "Members.cluster.talos.dev")
    members = [MemberSpec.FromString(resource.spec.proto_spec) for resource in resources]
    addressed = [
        (str(ip_address(member.addresses[0].ip)), member.machine_type in _CONTROL_PLANE)
        for member in members
        if member.addresses
    ]
    control_plane = [address for address, is_control_plane in addressed if is_control_plane]
    if not control_plane:
        hint = "name the nodes: --control-plane-nodes, --worker-nodes"
        raise UserError("knows no control plane node of its cluster", where=f"node {node}", hint=hint)
    workers = [address for address, is_control_plane in addressed if not is_control_plane]
    return Nodes(control_plane=control_plane, workers=workers)


async def wait_for_health(
    session: Session, nodes: Nodes, *, seconds: float, report: Callable[[str], None]
) -> None:
    """Wait for one condition after the other; DeadlineExceeded names the one that is not met in time."""
    end, last = time.monotonic() + seconds, ""

    def show(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            report(text)

    for name, condition in CONDITIONS.items():
        show(f"waiting for {name}: ...")
        while problem := await _try(condition, session, nodes):
            show(f"waiting for {name}: {problem}")
            if time.monotonic() > end:
                raise RpcError(Code.DEADLINE_EXCEEDED, f"not healthy within {seconds:g} s: {last}")
            await asyncio.sleep(PAUSE)
        show(f"waiting for {name}: OK")


async def _try(condition: Condition, session: Session, nodes: Nodes) -> str:
    try:
        return await condition(session, nodes)
    except RpcError as error:
        # A certificate without the role will not get one by waiting.
        if error.code in {Code.PERMISSION_DENIED, Code.UNAUTHENTICATED}:
            raise
        return describe(error, session.target)


def each(check: Callable[[Session, str], Awaitable[str]], *, is_control_plane: bool = False) -> Condition:
    """A condition of every node, or of every control plane node: the first problem that one has."""

    async def condition(session: Session, nodes: Nodes) -> str:
        asked = nodes.control_plane if is_control_plane else nodes.all

        async def ask(node: str) -> str:
            problem = await check(session, node)
            return problem and f"{node}: {problem}"

        return next(filter(None, await asyncio.gather(*(ask(node) for node in asked))), "")

    return condition


def service(id: str) -> Callable[[Session, str], Awaitable[str]]:
    """A service runs and its last health check found nothing."""

    async def check(session: Session, node: str) -> str:
        reply = await session.unary(node, _SERVICE + "ServiceList", Empty(), machine.ServiceListResponse)
        services = {one.id: one for part in parts(reply, machine.ServiceList) for one in part.services}
        if id not in services:
            return f'service "{id}" is not there'
        found = services[id]
        if found.state != "Running":
            return f'service "{id}" is {found.state}'
        if found.health.unknown or not found.health.healthy:
            return f'service "{id}" is not healthy: {found.health.last_message or "no check yet"}'
        return ""

    return check


async def _members(session: Session, node: str) -> dict[int, machine.EtcdMember]:
    request = machine.EtcdMemberListRequest()
    reply = await session.unary(node, _SERVICE + "EtcdMemberList", request, machine.EtcdMemberListResponse)
    return {member.id: member for part in parts(reply, machine.EtcdMembers) for member in part.members}


async def check_members_agree(session: Session, nodes: Nodes) -> str:
    """Every control plane node names the same members of etcd."""
    lists = await asyncio.gather(*(_members(session, node) for node in nodes.control_plane))
    for node, members in zip(nodes.control_plane, lists, strict=True):
        if members.keys() != lists[0].keys():
            return f"{node} and {nodes.control_plane[0]} name different members"
    return ""


async def check_members_are_nodes(session: Session, nodes: Nodes) -> str:
    """Every member of etcd is a control plane node, and each of those is a member."""
    members = await _members(session, nodes.control_plane[0])
    for member in members.values():
        hosts = {url.partition("://")[2].rpartition(":")[0].strip("[]") for url in member.peer_urls}
        if not hosts & set(nodes.control_plane):
            return f'the member "{member.hostname}" ({", ".join(sorted(hosts))}) is no control plane node'
    if len(members) < len(nodes.control_plane):
        return f"etcd has {len(members)} members for {len(nodes.control_plane)} control plane nodes"
    return ""


async def check_version(session: Session, node: str) -> str:
    """The API answers."""
    reply = await session.unary(node, _SERVICE + "Version", Empty(), machine.VersionResponse)
    return "" if list(parts(reply, machine.Version)) else "no answer"


async def check_diagnostics(session: Session, node: str) -> str:
    """The node reports no mistake of its configuration."""
    resources = await list_resources(session, node, "runtime", "Diagnostics.runtime.talos.dev")
    found = [DiagnosticSpec.FromString(resource.spec.proto_spec).message for resource in resources]
    return ", ".join(found)


async def check_boot(session: Session, node: str) -> str:
    """The boot has ended and nothing is missing."""
    resource = await get_resource(session, node, "runtime", "MachineStatuses.runtime.talos.dev", "machine")
    status = MachineStatusSpec.FromString(resource.spec.proto_spec)
    if status.stage != RuntimeMachineStage.MACHINE_STAGE_RUNNING:
        return "the boot has not ended"
    unmet = ", ".join(f"{one.name}: {one.reason}" for one in status.status.unmet_conditions)
    return f"the machine is not ready: {unmet}" if unmet else ""


CONDITIONS: dict[str, Condition] = {
    "etcd to be healthy": each(service("etcd"), is_control_plane=True),
    "etcd members to be consistent across nodes": check_members_agree,
    "etcd members to be control plane nodes": check_members_are_nodes,
    "apid to be ready": each(check_version),
    "no diagnostics": each(check_diagnostics),
    "kubelet to be healthy": each(service("kubelet")),
    "all nodes to finish boot sequence": each(check_boot),
}
"""In the order in which they are waited for."""
