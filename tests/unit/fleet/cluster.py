"""Nodes in memory that are upgraded as real ones are: installed, rebooted, on trial, kept or reverted."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, cast

from google.protobuf.message import Message

from talos.api.common.common_pb2 import Data
from talos.api.cosi.resource_pb2 import Resource
from talos.api.definitions.enums_pb2 import MachineType, RuntimeMachineStage
from talos.api.machine import image_pb2, lifecycle_pb2, machine_pb2
from talos.api.resource import config_pb2
from talos.api.rpc import Code, RpcError
from talos.fleet.progress import NodeProgress, NodeStep
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.upgrade.state import BUSY, IDLE, Upgrade, bless, format_state, revert, stage, start

OLD, NEW = "v1.15.0", "v1.15.1"
IMAGE = f"registry.test/installer:{NEW}"
SNAPSHOT = b"keys" * 1000 + hashlib.sha256(b"keys" * 1000).digest()
TICK = 0.002
"""Seconds of each thing that takes a node some time."""


@dataclass(slots=True, kw_only=True)
class Node:
    """One node. ``fails`` is what goes wrong: ``etcd``, ``install``, ``trial``, ``health`` or ``away``."""

    address: str
    is_control_plane: bool
    version: str = OLD
    fails: str = ""
    state: Upgrade = IDLE
    boots: int = 1
    checks: int = 0
    """How many calls it refuses because an earlier one still looks at the release."""
    is_up: bool = True
    is_booting: bool = False
    unhealthy: str = ""
    """The service that does not run."""
    labels: dict[str, str] | None = None
    """In Kubernetes, where the node has registered."""

    async def boot(self) -> None:
        """Go down, come up with what is staged, and judge it."""
        self.is_up = False
        await asyncio.sleep(2 * TICK)
        if self.fails == "away":
            return
        self.boots += 1
        if self.state.phase.value == "staged":
            self.state = start(self.state, running="B", cause="")
            self.version = self.state.version
        self.is_up = True
        await asyncio.sleep(2 * TICK)
        if self.state.phase.value != "trial":
            return
        if self.fails == "trial":
            self.is_up = False
            await asyncio.sleep(TICK)
            self.boots += 1
            self.version = self.state.previous_version
            self.state = revert(self.state, "self-check: the network is not ready")
            self.is_up = True
        else:
            self.state = bless(self.state)
            self.unhealthy = "kubelet" if self.fails == "health" else self.unhealthy


@dataclass(slots=True)
class Cluster:
    """The API of all nodes. ``log`` has what was done to which, ``away`` how many were down at once."""

    nodes: dict[str, Node]
    log: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    installing: int = 0
    max_installing: int = 0
    max_unavailable: int = 0
    members: int = 3
    lost: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])
    """The node and the method of each call that gets no answer, and whether it was received."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def _node(self, address: str) -> Node:
        node = self.nodes.get(address)
        if node is None or not node.is_up:
            raise RpcError(Code.UNAVAILABLE, f"{address} does not answer")
        return node

    def _lose(self, node: str, name: str, *, received: bool) -> None:
        if (node, name, received) in self.lost:
            self.lost.remove((node, name, received))
            raise RpcError(Code.UNAVAILABLE, f"{node}: the connection was closed")

    async def unary[R: Message](self, node: str, method: str, request: Any, reply: type[R]) -> R:
        await asyncio.sleep(0)
        found, name = self._node(node), method.rpartition("/")[2]
        self._lose(node, name, received=False)
        match name:
            case "Version":
                info = machine_pb2.VersionInfo(tag=found.version, arch="amd64")
                answer: Message = machine_pb2.VersionResponse(messages=[machine_pb2.Version(version=info)])
            case "ServiceList":
                answer = self._list_services(found)
            case "EtcdMemberList":
                members = [machine_pb2.EtcdMember(id=number) for number in range(1, self.members + 1)]
                answer = machine_pb2.EtcdMemberListResponse(
                    messages=[machine_pb2.EtcdMembers(members=members)]
                )
            case "EtcdStatus":
                status = machine_pb2.EtcdMemberStatus(member_id=int(node[-1]), leader=1)
                answer = machine_pb2.EtcdStatusResponse(
                    messages=[machine_pb2.EtcdStatus(member_status=status)]
                )
            case "Reboot":
                self._reboot(found)
                answer = machine_pb2.RebootResponse()
            case "Upgrade":
                if found.checks:
                    found.checks -= 1
                    raise RpcError(Code.FAILED_PRECONDITION, BUSY)
                self.log.append(("upgrade", node))
                found.state = self._stage(found)
                self._reboot(found)
                answer = machine_pb2.UpgradeResponse()
            case _:
                raise AssertionError(method)
        self._lose(node, name, received=True)
        return cast("R", answer)

    def _reboot(self, node: Node) -> None:
        self.log.append(("reboot", node.address))
        task = asyncio.get_running_loop().create_task(node.boot())
        self.tasks.add(task)
        node.is_up = False
        self.max_unavailable = max(self.max_unavailable, sum(not one.is_up for one in self.nodes.values()))

    @staticmethod
    def _stage(node: Node) -> Upgrade:
        return stage(node.state, running="A", version=NEW, previous_version=node.version)

    @staticmethod
    def _list_services(node: Node) -> machine_pb2.ServiceListResponse:
        services = [
            machine_pb2.ServiceInfo(
                id=name,
                state="Preparing" if name == node.unhealthy else "Running",
                health=machine_pb2.ServiceHealth(healthy=True),
            )
            for name in ("apid", "kubelet")
        ]
        return machine_pb2.ServiceListResponse(messages=[machine_pb2.ServiceList(services=services)])

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        return [kind.spec.FromString(one.spec.proto_spec) for one in await self.resources(node, kind)]

    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        await asyncio.sleep(0)
        if kind.type == kinds.MEMBER.type:
            return [self._make_member(number) for number in range(1, len(self.nodes) + 1)]
        found = self._node(node)
        number = int(ip_address(node)) & 0xFFFF
        specs: dict[str, Message] = {
            kinds.MACHINE_TYPE.type: config_pb2.MachineTypeSpec(
                machine_type=config_pb2.CONTROL_PLANE if found.is_control_plane else config_pb2.WORKER
            ),
            kinds.HOSTNAME_STATUS.type: kinds.HOSTNAME_STATUS.spec(hostname=f"node-{number}"),
            kinds.META_LOAD.type: kinds.META_LOAD.spec(done=True),
            kinds.META_KEY.type: kinds.META_KEY.spec(value=format_state(found.state).decode()),
            kinds.MACHINE_STATUS.type: kinds.MACHINE_STATUS.spec(
                stage=RuntimeMachineStage.MACHINE_STAGE_BOOTING
                if found.is_booting
                else RuntimeMachineStage.MACHINE_STAGE_RUNNING
            ),
            kinds.ETCD_MEMBER.type: kinds.ETCD_MEMBER.spec(member_id=f"{number:016x}"),
        }
        if found.labels is not None:
            specs[kinds.NODE_STATUS.type] = kinds.NODE_STATUS.spec(node_ready=True, labels=found.labels)
        if kind.type not in specs:
            return []
        resource = Resource()
        resource.metadata.id = "0x40"
        resource.metadata.created.seconds = found.boots
        resource.spec.proto_spec = specs[kind.type].SerializeToString()
        return [resource]

    def _make_member(self, number: int) -> Resource:
        address = make_address(number)
        is_control_plane = self.nodes[address].is_control_plane
        member = kinds.MEMBER.spec(
            hostname=f"node-{number}",
            machine_type=MachineType.TYPE_CONTROL_PLANE if is_control_plane else MachineType.TYPE_WORKER,
        )
        member.addresses.add(ip=ip_address(address).packed)
        resource = Resource()
        resource.spec.proto_spec = member.SerializeToString()
        return resource

    @asynccontextmanager
    async def stream[R: Message](
        self, node: str, method: str, request: Any, reply: type[R]
    ) -> AsyncGenerator[AsyncIterator[R]]:
        found = self._node(node)
        self._lose(node, method.rpartition("/")[2], received=False)
        if method.endswith("EtcdSnapshot"):
            self.log.append(("snapshot", node))
            yield cast("AsyncIterator[R]", _iterate(Data(bytes=SNAPSHOT)))
            return
        if method.endswith("Pull"):
            self.log.append(("pull", node))
            yield cast(
                "AsyncIterator[R]", _iterate(image_pb2.ImageServicePullResponse(name=request.image_ref))
            )
            return
        self.log.append(("install", node))
        self.installing += 1
        self.max_installing = max(self.max_installing, self.installing)
        await asyncio.sleep(2 * TICK)
        self.installing -= 1
        code = {"install": 2, "etcd": 5}.get(found.fails, 0)
        if not code:
            found.state = self._stage(found)
        self._lose(node, method.rpartition("/")[2], received=True)
        progress = lifecycle_pb2.LifecycleServiceInstallProgress
        refusals = {
            2: "refused: the release is not signed\n",
            5: "refused: etcd member cp-3 is not healthy\n",
        }
        text = refusals.get(code, "writing slot B\n")
        lines = [progress(message=text), progress(exit_code=code)]
        answers = [lifecycle_pb2.LifecycleServiceUpgradeResponse(progress=line) for line in lines]
        yield cast("AsyncIterator[R]", _iterate(*answers))

    def done(self, what: str) -> list[str]:
        """To which nodes something was done, in order."""
        return [node for name, node in self.log if name == what]


async def _iterate(*messages: Message) -> AsyncGenerator[Message]:
    for message in messages:
        await asyncio.sleep(0)
        yield message


def make_address(number: int) -> str:
    """The address of a node, from 1 on."""
    return f"10.0.{number >> 8}.{number & 0xFF}"


def make_cluster(controlplanes: int = 3, workers: int = 2) -> Cluster:
    """A cluster whose nodes are 10.0.0.1 and up, control plane first."""
    addresses = map(make_address, range(1, controlplanes + workers + 1))
    nodes = {
        address: Node(address=address, is_control_plane=number < controlplanes)
        for number, address in enumerate(addresses)
    }
    return Cluster(nodes)


@dataclass(slots=True)
class Steps:
    """Remembers how each row changed."""

    seen: list[tuple[str, NodeStep]] = field(default_factory=list[tuple[str, NodeStep]])

    def changed(self, row: NodeProgress) -> None:
        """Note the step."""
        if (row.node, row.step) not in self.seen[-1:]:
            self.seen.append((row.node, row.step))
