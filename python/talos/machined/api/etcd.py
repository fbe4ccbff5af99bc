"""Bootstrap, EtcdRecover and EtcdLeaveCluster: what changes etcd's data on this node.

Everything else about etcd is clusterd's.
"""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import trio

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.machined.api.bootstrap import bootstrap
from talos.machined.api.pump import in_thread
from talos.machined.node import etcd_data
from talos.machined.node.ports.node import Node
from talos.machined.services.etcd import leave_etcd
from talos.process.machine_type import require_control_plane

MAX_SNAPSHOT = 16 << 30
"""Bytes; etcd warns above 8 GiB."""


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    return {
        "Bootstrap": partial(bootstrap, node),
        "EtcdRecover": partial(recover, node, trio.Lock()),
        "EtcdLeaveCluster": partial(leave, node),
    }


async def recover(
    node: Node, uploading: trio.Lock, chunks: AsyncIterator[common_pb2.Data], _call: Call
) -> pb.EtcdRecoverResponse:
    """Keep an uploaded snapshot for a bootstrap; an unfinished one does not take its place."""
    await require_control_plane(node.state, "etcd recover")
    try:
        uploading.acquire_nowait()
    except trio.WouldBlock:
        text = "another snapshot is being uploaded to this node: wait for it, or end that call"
        raise RpcError(Code.FAILED_PRECONDITION, text) from None
    try:
        await _keep(chunks, etcd_data.SNAPSHOT)
    finally:
        uploading.release()
    return pb.EtcdRecoverResponse(messages=[pb.EtcdRecover()])


async def _keep(chunks: AsyncIterator[common_pb2.Data], path: Path) -> None:
    """Write a snapshot; what was there before stays until it is complete. RpcError."""
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
        await in_thread(etcd_data.chown_to_etcd, partial_path)
        await in_thread(partial_path.rename, path)
    except OSError as error:
        text = f"the snapshot can't be kept in {path.parent}: {error.strerror}"
        raise RpcError(Code.RESOURCE_EXHAUSTED, text) from None
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(partial(partial_path.unlink, missing_ok=True))


async def leave(node: Node, _request: pb.EtcdLeaveClusterRequest, _call: Call) -> pb.EtcdLeaveClusterResponse:
    """Remove this node's member from the cluster, then its data; the service stays stopped."""
    await require_control_plane(node.state, "etcd leave")
    await leave_etcd(node.connect, node.services)
    return pb.EtcdLeaveClusterResponse(messages=[pb.EtcdLeaveCluster()])
