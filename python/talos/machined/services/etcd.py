"""etcd as a service. How it starts, clusterd decides: it talks to the other members."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import trio
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.definitions.time_pb2 import StatusSpec
from talos.api.internal.membership_pb2 import PlanRequest, PlanResponse
from talos.api.rpc import Code, RpcError, format_reason
from talos.disks.volumes.folders import ETCD_USER
from talos.etcd.paths import SECRETS
from talos.images.reference import parse_reference
from talos.machined.containerd.client import CRI_SOCKET, SYSTEM, find_root, open_namespace
from talos.machined.containerd.oneshot import run_to_end
from talos.machined.containerd.pull import pull_image, read_sources
from talos.machined.containerd.spec import ContainerSpec, Mount
from talos.machined.containerd.store import find_image
from talos.machined.containerd.verify.search import Verifier
from talos.machined.node import etcd_data
from talos.machined.node.etcd import MEMBERSHIP, PlannedBootstrap
from talos.machined.node.ports.services import Services
from talos.machined.services.conditions import ResourceReady, is_volume_ready, make_volume_ready
from talos.machined.services.cri import NETWORK_READY
from talos.machined.services.health import Connect, HealthCheck
from talos.machined.services.spec import Directory, RunContainer, ServiceContext, ServiceSpec
from talos.process.daemons import CLUSTERD
from talos.process.machine_type import is_on_control_plane
from talos.resource import ids, kinds
from talos.resource.resource import Resource
from talos.resource.state import State
from talos.system.block.layout import EPHEMERAL
from talos.system.cgroups import MIB, Limits
from talos.system.errors import UserError

ETCD = "etcd"
VOLUME = "ETCD"
GROUP = "podruntime/etcd"
RESTORE_ID = "etcd-restore"
CHECK_TIMEOUT = 15.0  # seconds
LEAVE_TIMEOUT = 330.0
"""Seconds; clusterd tries for five minutes."""
STOP_TIMEOUT = 30.0
"""Seconds for a leader to hand over."""

_DATA = Mount(target=str(etcd_data.DATA), source=str(etcd_data.DATA), options=("rbind", "rw"))
_SECRETS = Mount(target=SECRETS, source=SECRETS)
_SNAPSHOT = Mount(target=str(etcd_data.SNAPSHOT), source=str(etcd_data.SNAPSHOT))


@dataclass(frozen=True, slots=True)
class EtcdProbe:
    """A key can be read through the cluster's quorum."""

    async def __call__(self, connect: Connect) -> None:
        """Have clusterd read it, which has the certificate."""
        async with connect(CLUSTERD.socket) as transport:
            await transport.unary(MEMBERSHIP + "Check", Empty(), Empty)


async def plan_etcd(connect: Connect, request: PlanRequest) -> PlanResponse:
    """How etcd is to be started; RpcError with the reason why it can't be."""
    async with connect(CLUSTERD.socket) as transport:
        return await transport.unary(MEMBERSHIP + "Plan", request, PlanResponse)


async def _plan_service(context: ServiceContext, start: PlanRequest.Start) -> PlanResponse:
    """The plan for the service, whose event has the reason why there is none: UserError."""
    try:
        return await plan_etcd(context.connect, PlanRequest(start=start))
    except RpcError as error:
        raise UserError(error.reason) from None


async def make_etcd(context: ServiceContext) -> ContainerSpec:
    """Etcd's container: with its data, as a new member, or as the first one of a new cluster."""
    if await trio.to_thread.run_sync(etcd_data.has_data):
        plan = await _plan_service(context, PlanRequest.DATA)
    else:
        await trio.to_thread.run_sync(etcd_data.prepare)
        plan = await _join_or_begin(context)
    return _make_container(plan.image, plan.argv, _SECRETS)


def _make_container(image: str, argv: Iterable[str], *mounts: Mount) -> ContainerSpec:
    return ContainerSpec(
        image=image,
        argv=tuple(argv),
        uid=ETCD_USER,
        gid=ETCD_USER,
        mounts=(_DATA, *mounts),
    )


async def _join_or_begin(context: ServiceContext) -> PlanResponse:
    """Wait until this node is a member of a cluster, or is to begin one."""
    plans: list[PlanResponse] = []
    requests: list[PlannedBootstrap] = []
    async with trio.open_nursery() as nursery:

        async def join() -> None:
            plans.append(await _plan_service(context, PlanRequest.JOIN))
            nursery.cancel_scope.cancel()

        async def begin() -> None:
            requests.append(await context.etcd.wait())
            nursery.cancel_scope.cancel()

        nursery.start_soon(join)
        nursery.start_soon(begin)
    if plans:
        return plans[0]
    (planned,) = requests
    if planned.plan.restore_argv:
        await _restore(context, planned.plan)
    return planned.plan


async def _restore(context: ServiceContext, plan: PlanResponse) -> None:
    """Make the data directory from the snapshot; nothing of a failed attempt stays."""
    name = str(parse_reference(plan.image))
    async with context.connect(CRI_SOCKET) as transport:
        containerd = open_namespace(transport, CRI_SOCKET, SYSTEM, context.workloads)
        image = await find_image(containerd, name)
        if image is None:
            sources = await read_sources(context.state)
            root = find_root(CRI_SOCKET)
            verifier = Verifier(run=context.processes.capture, state=context.state)
            image = await pull_image(containerd, name, sources, root=root, verifier=verifier)
        spec = _make_container(plan.image, plan.restore_argv, _SNAPSHOT)
        code, output = await run_to_end(containerd, spec, image, id=RESTORE_ID, group=GROUP)
    if code:
        await trio.to_thread.run_sync(etcd_data.prepare)
        reason = output.strip().splitlines()[-1:] or [f"exit code {code}"]
        raise UserError(
            f"can't be restored: {reason[0]}",
            where="snapshot",
            hint="upload another one: talosctl bootstrap --recover-from",
        )
    await trio.to_thread.run_sync(etcd_data.adopt)


async def find_lost_volume(state: State) -> str:
    """The volume without which a control plane node does not see whether it has data of etcd; empty for none.

    It can't be used, or not yet. While EPHEMERAL can't, the folder ETCD in it counts as ready.
    """
    if not await is_on_control_plane(state):
        return ""
    ready = {one.id for one in await state.list(kinds.VOLUME_STATUS) if is_volume_ready(one)}
    return next((one for one in (VOLUME, EPHEMERAL.label) if one not in ready), "")


async def has_member(connect: Connect, state: State) -> bool:
    """Whether this node has a member that can leave: a node without data has none.

    When a volume with the data can't be used, only other nodes have whether there is one: RpcError where
    they list one, which would stay in the cluster, or none of them answers.
    """
    lost = await find_lost_volume(state)
    if not lost:
        return await trio.to_thread.run_sync(etcd_data.has_data)
    try:
        async with connect(CLUSTERD.socket) as transport:
            await transport.unary(MEMBERSHIP + "CheckNoMember", Empty(), Empty)
    except (RpcError, OSError) as error:
        reason = format_reason(error)
        text = f"volume {lost} with its data can't be used, so a member may stay in the cluster ({reason})"
        raise RpcError(
            Code.FAILED_PRECONDITION, f"{text}: talosctl etcd remove-member on another node removes it"
        ) from None
    return False


async def check_leave(connect: Connect, state: State) -> None:
    """RpcError when a cluster needs this node's member, or has one that can't leave."""
    if await has_member(connect, state):
        async with connect(CLUSTERD.socket) as transport:
            await transport.unary(MEMBERSHIP + "CheckLeave", Empty(), Empty)


async def leave_etcd(connect: Connect, services: Services) -> None:
    """Remove this node's member from the cluster, then its data; the service stays stopped.

    RpcError when the cluster needs this member: nothing has changed then.
    """
    if not await trio.to_thread.run_sync(etcd_data.has_data):
        raise RpcError(Code.FAILED_PRECONDITION, "this node is no member of etcd")
    async with connect(CLUSTERD.socket) as transport:
        await transport.unary(MEMBERSHIP + "Leave", Empty(), Empty, timeout=LEAVE_TIMEOUT)
    await services.halt(ETCD)
    await trio.to_thread.run_sync(etcd_data.erase)


async def resign(connect: Connect) -> None:
    """Free what this node was elected for, while etcd takes the resignation. RpcError."""
    async with connect(CLUSTERD.socket) as transport:
        await transport.unary(MEMBERSHIP + "Resign", Empty(), Empty)


def _is_synced(resource: Resource[Message]) -> bool:
    status = cast("StatusSpec", resource.spec)
    return status.synced or status.sync_disabled


TIME_READY = ResourceReady(
    text="time sync", kind=ids.TIME_STATUS[0], id=ids.TIME_STATUS[1], predicate=_is_synced
)
ETCD_SERVICE = ServiceSpec(
    id=ETCD,
    start=RunContainer(make=make_etcd),
    depends=("cri", CLUSTERD.name),
    conditions=(
        NETWORK_READY,
        make_volume_ready(VOLUME),
        TIME_READY,
        ResourceReady(text="etcd spec", kind=ids.ETCD_SPEC[0], id=ids.ETCD_SPEC[1]),
        ResourceReady(text="etcd certificates", kind=ids.ETCD_PKI_STATUS[0], id=ids.ETCD_PKI_STATUS[1]),
    ),
    health=HealthCheck(probe=EtcdProbe(), timeout=CHECK_TIMEOUT),
    control_plane_only=True,
    directories=(Directory(path=str(etcd_data.DATA), uid=ETCD_USER, gid=ETCD_USER, mode=0o700),),
    group=GROUP,
    limits=Limits(low=256 * MIB, millicores=2000),
    oom_score_adj=-998,
    stop_timeout=STOP_TIMEOUT,
)
"""Every member of the control plane has one."""
