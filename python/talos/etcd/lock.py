"""A lock in etcd that one node of the cluster has at a time, in the form of etcd's Go client.

The oldest key below the lock's name is the holder's; its value names the node. The key lives as long as its
lease, so the lock of a node that is gone becomes free by itself.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio

from talos.api.etcd import kv_pb2
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd.client import EtcdClient

UPGRADE = "talos:v1:etcdUpgradeMutex"
MANIFESTS = "talos:v1:manifestApplyMutex"
STATIC_PODS = "talos:v1:staticPodMutex"
LEASE_SECONDS = 1200
"""After which the lock of a node that is gone is free: an upgrade may take 900 s, its self-check 300 s."""
FREE_LIMIT = 5.0
"""Seconds for giving a lock back, which is free later by itself."""


class LockedError(RpcError):
    """Another node has the lock."""

    def __init__(self, name: str, holder: str) -> None:
        doing = "is being upgraded and holds" if name == UPGRADE else "holds"
        text = f"{holder} {doing} the lock {name}: wait until it is done"
        super().__init__(Code.ABORTED, text)
        self.holder = holder


@asynccontextmanager
async def hold_lock(client: EtcdClient, name: str, holder: str, seconds: int) -> AsyncGenerator[None]:
    """Hold a lock for up to ``seconds``; LockedError names another holder."""
    await take_lock(client, name, holder, seconds)
    try:
        yield
    finally:
        with trio.move_on_after(FREE_LIMIT, shield=True), suppress(RpcError):
            await free_lock(client, name, holder)


async def take_lock(client: EtcdClient, name: str, holder: str, seconds: int = LEASE_SECONDS) -> bool:
    """Take a lock, or prolong it for the node that has it; whether it is taken anew.

    LockedError names another holder.
    """
    reply = await client.txn(pb.TxnRequest(success=[_find_oldest(name)]))
    if (own := _first(reply)) is not None and own.value == holder.encode():
        if await client.keep_lease(own.lease) > 0:
            return False
    elif own is not None:
        raise _make_refusal(name, own)
    lease = await client.grant_lease(seconds)
    key = f"{name}/{lease:x}".encode()
    put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=holder.encode(), lease=lease))
    oldest = _first(await client.txn(pb.TxnRequest(success=[put, _find_oldest(name)])))
    if oldest is None or oldest.key != key:
        await client.revoke_lease(lease)
        raise _make_refusal(name, oldest)
    return True


async def free_lock(client: EtcdClient, name: str, holder: str) -> None:
    """Give a lock back, with all that this node ever did to take it."""
    reply = await client.txn(pb.TxnRequest(success=[_find_all(name)]))
    for found in reply.responses[-1].response_range.kvs:
        if found.value == holder.encode():
            await client.revoke_lease(found.lease)


def _find_all(name: str, limit: int = 0) -> pb.RequestOp:
    prefix = f"{name}/".encode()
    request = pb.RangeRequest(
        key=prefix,
        range_end=prefix[:-1] + bytes([prefix[-1] + 1]),
        sort_order=pb.RangeRequest.ASCEND,
        sort_target=pb.RangeRequest.CREATE,
        limit=limit,
    )
    return pb.RequestOp(request_range=request)


def _find_oldest(name: str) -> pb.RequestOp:
    return _find_all(name, limit=1)


def _first(reply: pb.TxnResponse) -> kv_pb2.KeyValue | None:
    return next(iter(reply.responses[-1].response_range.kvs), None)


def _make_refusal(name: str, holder: kv_pb2.KeyValue | None) -> LockedError:
    node = holder.value.decode("utf-8", "replace") if holder is not None else ""
    return LockedError(name, node or "another node")
