"""What is the matter with a node: before a fleet is touched, and before the next node is.

As in the node's own self-check, what was not healthy before need not be healthy afterwards: an upgrade may be
the cure.
"""

from collections.abc import AsyncIterator, Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.enums_pb2 import RuntimeMachineStage
from talos.api.machine import machine_pb2 as machine
from talos.fleet.calls import MACHINE, limited_call
from talos.health.calls import NodeCalls
from talos.resource import kinds
from talos.resource.yaml.enums import format_stage

_AT_REST = ("Skipped", "Finished")


async def find_problems(calls: NodeCalls, node: str, *, is_control_plane: bool) -> Mapping[str, str]:
    """What is the matter with a node, by what it is about; RpcError.

    Its boot has ended with nothing missing, every service is healthy, on the control plane its member of etcd
    votes, and Kubernetes finds it Ready and uses it, where it has registered.
    """
    async with limited_call():
        found = {about: text async for about, text in _check_machine(calls, node)}
        found |= {about: text async for about, text in _check_services(calls, node)}
        if is_control_plane:
            found |= {about: text async for about, text in _check_member(calls, node)}
        for status in await calls.specs(node, kinds.NODE_STATUS):
            if not status.node_ready:
                found["node"] = f"Kubernetes finds {status.nodename} not Ready"
            if status.unschedulable:
                found["cordon"] = f"{status.nodename} is cordoned"
    return found


type Found = AsyncIterator[tuple[str, str]]


async def find_machine_problems(calls: NodeCalls, node: str) -> Mapping[str, str]:
    """The part that one call shows: whether the boot has ended, and what the machine lacks; RpcError."""
    async with limited_call():
        return {about: text async for about, text in _check_machine(calls, node)}


async def _check_machine(calls: NodeCalls, node: str) -> Found:
    statuses = await calls.specs(node, kinds.MACHINE_STATUS)
    if not statuses:
        yield "stage", "the machine has no status yet"
    for status in statuses:
        if status.stage != RuntimeMachineStage.MACHINE_STAGE_RUNNING:
            yield "stage", f"the machine is {format_stage(status.stage)}"
        for condition in status.status.unmet_conditions:
            yield f"condition {condition.name}", f"{condition.name}: {condition.reason}"


async def _check_services(calls: NodeCalls, node: str) -> Found:
    reply = await calls.unary(node, MACHINE + "ServiceList", Empty(), machine.ServiceListResponse)
    for service in (service for message in reply.messages for service in message.services):
        about = f"service {service.id}"
        if service.state in _AT_REST:
            continue
        if service.state != "Running":
            yield about, f"{about} is {service.state}"
        elif not (service.health.unknown or service.health.healthy):
            yield about, f"{about} is not healthy: {service.health.last_message}"


async def _check_member(calls: NodeCalls, node: str) -> Found:
    own = {spec.member_id for spec in await calls.specs(node, kinds.ETCD_MEMBER)}
    request, reply_type = machine.EtcdMemberListRequest(), machine.EtcdMemberListResponse
    reply = await calls.unary(node, MACHINE + "EtcdMemberList", request, reply_type)
    members = [member for message in reply.messages for member in message.members]
    if not own & {f"{member.id:016x}" for member in members if not member.is_learner}:
        yield "member", "its member of etcd does not vote"
