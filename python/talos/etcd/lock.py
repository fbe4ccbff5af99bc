"""A lock in etcd that one node of the cluster has at a time, in the form of etcd's Go client.

A key below the lock's name claims it; its value names the node, and the oldest one has the lock. A key lives
as long as its lease, so the lock of a node that is gone becomes free by itself. Its taker chooses the
lease's id, and can give back exactly that, also when the answer was lost. A node may have it under several.
"""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

import trio

from talos.api.etcd import kv_pb2
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd.client import EtcdClient

UPGRADE = "talos:v1:etcdUpgradeMutex"
MANIFESTS = "talos:v1:manifestApplyMutex"
STATIC_PODS = "talos:v1:staticPodMutex"
JOIN = "talos:v1:etcdJoinMutex"
LEASE_TTL = 1200
"""After which the lock of a node that is gone is free: an upgrade may take 900 s, its self-check 300 s."""
RELEASE_TIMEOUT = 5.0
"""Seconds for giving a lock back, which is free later by itself."""


class LockedError(RpcError):
    """Another node has the lock."""

    def __init__(self, name: str, holder: str) -> None:
        doing = "is being upgraded and holds" if name == UPGRADE else "holds"
        text = f"{holder} {doing} the lock {name}: wait until it is done"
        super().__init__(Code.ABORTED, text)
        self.holder = holder


def make_lease() -> int:
    """An id for a lease that no other lease has."""
    return secrets.randbits(62) + 1


@asynccontextmanager
async def hold_lock(client: EtcdClient, name: str, holder: str, seconds: int) -> AsyncGenerator[None]:
    """Hold a lock for up to ``seconds``; LockedError names another holder."""
    await take_lock(client, name, holder, make_lease(), seconds)
    try:
        yield
    finally:
        with trio.move_on_after(RELEASE_TIMEOUT, shield=True), suppress(RpcError):
            await release_all(client, name, holder)


async def take_lock(client: EtcdClient, name: str, holder: str, lease: int, seconds: int = LEASE_TTL) -> None:
    """Take a lock under a lease of this id, or prolong that; LockedError names another holder."""
    key, value = f"{name}/{lease:x}".encode(), holder.encode()
    keys = _list_keys(await client.txn(pb.TxnRequest(success=[_make_range(name)])))
    if not keys or keys[0].value == value:  # else a node that waits would write all the time
        if await client.keep_lease(lease) <= 0:
            await client.grant_lease(seconds, lease)
        put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))
        keys = _list_keys(await client.txn(pb.TxnRequest(success=[put, _make_range(name)])))
    for older in keys:
        if older.key == key:
            return
        if older.value != value:
            if any(one.key == key for one in keys):
                await release_lease(client, lease)
            raise LockedError(name, older.value.decode("utf-8", "replace") or "another node")


async def release_lease(client: EtcdClient, lease: int) -> None:
    """Give back what was taken under a lease, if it was."""
    try:
        await client.revoke_lease(lease)
    except RpcError as error:
        if error.code is not Code.NOT_FOUND:
            raise


async def release_all(client: EtcdClient, name: str, holder: str, *, but: int = 0) -> None:
    """Give a lock back, with all that this node ever did to take it but what it took under one lease."""
    for found in _list_keys(await client.txn(pb.TxnRequest(success=[_make_range(name)]))):
        if found.value == holder.encode() and found.lease != but:
            await release_lease(client, found.lease)


def _make_range(name: str) -> pb.RequestOp:
    """All keys below a lock's name, the oldest first."""
    prefix = f"{name}/".encode()
    request = pb.RangeRequest(
        key=prefix,
        range_end=prefix[:-1] + bytes([prefix[-1] + 1]),
        sort_order=pb.RangeRequest.ASCEND,
        sort_target=pb.RangeRequest.CREATE,
    )
    return pb.RequestOp(request_range=request)


def _list_keys(reply: pb.TxnResponse) -> Sequence[kv_pb2.KeyValue]:
    return reply.responses[-1].response_range.kvs
