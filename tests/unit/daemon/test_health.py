"""The conditions of a healthy cluster, with nodes of a test's."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from google.protobuf.message import Message

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.definitions.enums_pb2 import MachineType, RuntimeMachineStage
from talos.api.definitions.runtime_pb2 import MachineStatusSpec
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Code, RpcError
from talos.daemon.health import CONDITIONS, ClusterNodes, sort_members, wait_for_health
from talos.resource import kinds
from talos.resource.kind import Kind

NODES = ClusterNodes(control_plane=["10.0.0.2", "10.0.0.3"], workers=["10.0.0.4"])


class Nodes:
    """Healthy nodes without Kubernetes, until a test changes them."""

    def __init__(self) -> None:
        self.etcd = dict.fromkeys(NODES.control_plane, "Running")
        self.members = {node: list(NODES.control_plane) for node in NODES.control_plane}
        self.stage: RuntimeMachineStage = RuntimeMachineStage.MACHINE_STAGE_RUNNING
        self.error: RpcError | None = None

    async def unary[R: Message](self, node: str, method: str, request: Message, reply: type[R]) -> R:
        del request
        if self.error:
            raise self.error
        answer: Any = reply()
        match method.rpartition("/")[2]:
            case "ServiceList":
                health = machine.ServiceHealth(healthy=True)
                state = self.etcd.get(node)
                services = [machine.ServiceInfo(id="etcd", state=state, health=health)] if state else []
                answer.messages.add(services=services)
            case "EtcdMemberList":
                members = [
                    machine.EtcdMember(id=int(one[-1]), hostname=one, peer_urls=[f"https://{one}:2380"])
                    for one in self.members[node]
                ]
                answer.messages.add(members=members)
            case _:
                answer.messages.add()
        return answer

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        del node
        status: Any = MachineStatusSpec(stage=self.stage)
        return [status] if kind.type == kinds.MACHINE_STATUS.type else []


async def check(nodes: Nodes) -> list[str]:
    lines: list[str] = []

    async def report(text: str) -> None:
        lines.append(text)

    await wait_for_health(nodes, NODES, seconds=0, report=report, sleep=trio.sleep)
    return lines


async def test_every_condition_is_reported_in_order() -> None:
    lines = await check(Nodes())
    results = {"kubelet to be healthy": "SKIP"}
    assert lines == [
        f"waiting for {name}: {text}" for name in CONDITIONS for text in ("...", results.get(name, "OK"))
    ]


def one_waits(nodes: Nodes) -> None:
    nodes.etcd["10.0.0.3"] = "Waiting"


def one_has_none(nodes: Nodes) -> None:
    del nodes.etcd["10.0.0.2"]


def one_lists_less(nodes: Nodes) -> None:
    nodes.members["10.0.0.3"].pop()


def a_stranger_is_listed(nodes: Nodes) -> None:
    for members in nodes.members.values():
        members.append("10.0.0.9")


def one_is_missing(nodes: Nodes) -> None:
    for members in nodes.members.values():
        members.pop()


def they_boot(nodes: Nodes) -> None:
    nodes.stage = RuntimeMachineStage.MACHINE_STAGE_BOOTING


def they_are_away(nodes: Nodes) -> None:
    nodes.error = RpcError(Code.UNAVAILABLE, "no route")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (one_waits, '10.0.0.3: service "etcd" is Waiting'),
        (one_has_none, '10.0.0.2: service "etcd" is not there'),
        (one_lists_less, "10.0.0.3 and 10.0.0.2 name different members"),
        (a_stranger_is_listed, 'the member "10.0.0.9" (10.0.0.9) is no control plane node'),
        (one_is_missing, "etcd has 1 members for 2 control plane nodes"),
        (they_boot, "10.0.0.2: the boot has not ended"),
        (they_are_away, "no route"),
    ],
)
async def test_the_first_condition_that_is_not_met_is_named(change: Any, text: str) -> None:
    nodes = Nodes()
    change(nodes)
    with pytest.raises(RpcError) as caught:
        await check(nodes)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    assert caught.value.message.endswith(text)


async def test_a_refused_role_is_not_waited_for() -> None:
    nodes = Nodes()
    nodes.error = RpcError(Code.PERMISSION_DENIED, "not authorized")
    with pytest.raises(RpcError, match="not authorized"):
        await check(nodes)


def test_members_are_sorted_by_kind() -> None:
    members = [
        MemberSpec(addresses=[NetIP(ip=bytes([10, 0, 0, last]))], machine_type=kind)
        for last, kind in ((4, MachineType.TYPE_WORKER), (2, MachineType.TYPE_CONTROL_PLANE))
    ]
    found = sort_members([*members, MemberSpec(machine_type=MachineType.TYPE_WORKER)])
    assert (found.control_plane, found.workers) == (["10.0.0.2"], ["10.0.0.4"])
