"""Bootstrap, EtcdRecover and EtcdLeaveCluster: what changes etcd's data on this node.

Everything else about etcd is clusterd's.
"""

from collections.abc import AsyncIterator, Mapping
from functools import partial

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.common import common_pb2
from talos.api.internal.membership_pb2 import PlanRequest
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.daemon.daemons import CLUSTERD
from talos.daemon.machine_type import require_control_plane
from talos.machined.api.pump import in_thread
from talos.machined.node.etcd import BootstrapOrder
from talos.machined.node.ports import Node, ServiceState
from talos.machined.services import etcd_data
from talos.machined.services.etcd import ETCD, MEMBERSHIP, leave_etcd, plan_etcd
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.resource.state import NotFoundError

SYNC_LIMIT = 5.0
"""Seconds that a bootstrap waits for the clock."""
MAX_SNAPSHOT = 16 << 30
"""Bytes; etcd warns above 8 GiB."""


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    return {
        "Bootstrap": partial(bootstrap, node),
        "EtcdRecover": partial(recover, node),
        "EtcdLeaveCluster": partial(leave, node),
    }


async def bootstrap(node: Node, request: pb.BootstrapRequest, call: Call) -> pb.BootstrapResponse:
    """Begin a cluster on this node, if nothing speaks against it; etcd starts in the background."""
    del call
    await require_control_plane(node.state, "bootstrap")
    try:
        await node.state.get(*ids.ETCD_ROOT_SECRET)
    except NotFoundError:
        text = "the config has no certificate authority for etcd: set cluster.etcd.ca"
        raise RpcError(Code.INVALID_ARGUMENT, text) from None
    await _require_time(node)
    if await in_thread(etcd_data.has_data):
        raise RpcError(Code.ALREADY_EXISTS, "etcd data directory is not empty")
    if node.services.get(ETCD).state in (ServiceState.INITIALIZED, ServiceState.STARTING):
        raise RpcError(Code.FAILED_PRECONDITION, "bootstrap is not available yet")
    plan = PlanRequest(start=PlanRequest.NEW)
    if request.recover_etcd:
        check = partial(etcd_data.check_snapshot, skip_hash_check=request.recover_skip_hash_check)
        await in_thread(check)
        plan.snapshot = str(etcd_data.SNAPSHOT)
        plan.restore_directory = str(etcd_data.DATA / etcd_data.RESTORED)
        plan.skip_hash_check = request.recover_skip_hash_check
    async with node.connect(CLUSTERD.socket) as transport:
        await transport.unary(MEMBERSHIP + "Survey", Empty(), Empty)
    order = BootstrapOrder(plan=await plan_etcd(node.connect, plan))
    node.etcd.begin(order)
    node.services.start_soon([ETCD])
    return pb.BootstrapResponse(messages=[pb.Bootstrap()])


async def _require_time(node: Node) -> None:
    with trio.move_on_after(SYNC_LIMIT):
        await wait_for(
            node.state, *ids.TIME_STATUS, lambda found: found.spec.synced or found.spec.sync_disabled
        )
        return
    raise RpcError(Code.FAILED_PRECONDITION, "time is not in sync yet")


async def recover(node: Node, chunks: AsyncIterator[common_pb2.Data], call: Call) -> pb.EtcdRecoverResponse:
    """Keep an uploaded snapshot for a bootstrap; an unfinished one does not take its place."""
    del call
    await require_control_plane(node.state, "etcd recover")
    path = etcd_data.SNAPSHOT
    partial_path = path.with_name(path.name + ".part")
    try:
        file = await trio.open_file(partial_path, "wb")
        async with file:
            size = 0
            async for chunk in chunks:
                size += len(chunk.bytes)
                if size > MAX_SNAPSHOT:
                    text = f"the snapshot is larger than {MAX_SNAPSHOT >> 30} GiB"
                    raise RpcError(Code.RESOURCE_EXHAUSTED, text)
                await file.write(chunk.bytes)
        await in_thread(etcd_data.give_to_etcd, partial_path)
        await in_thread(partial_path.rename, path)
    except OSError as error:
        text = f"the snapshot can't be kept in {path.parent}: {error.strerror}"
        raise RpcError(Code.RESOURCE_EXHAUSTED, text) from None
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(partial(partial_path.unlink, missing_ok=True))
    return pb.EtcdRecoverResponse(messages=[pb.EtcdRecover()])


async def leave(node: Node, request: pb.EtcdLeaveClusterRequest, call: Call) -> pb.EtcdLeaveClusterResponse:
    """Remove this node's member from the cluster, then its data; the service stays stopped."""
    del request, call
    await require_control_plane(node.state, "etcd leave")
    await leave_etcd(node.connect, node.services)
    return pb.EtcdLeaveClusterResponse(messages=[pb.EtcdLeaveCluster()])
