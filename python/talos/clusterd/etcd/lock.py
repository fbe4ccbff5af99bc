"""A lock in etcd that one node of the cluster holds at a time, as etcd's Go client writes it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio

from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.client import EtcdClient

UPGRADE = "talos:v1:etcdUpgradeMutex"
LEASE_SECONDS = 60
"""After which the lock of a node that is gone is free (as upstream)."""
RELEASE_LIMIT = 5.0


@asynccontextmanager
async def hold_lock(client: EtcdClient, name: str) -> AsyncGenerator[None]:
    """Hold a lock for up to :data:`LEASE_SECONDS`; FAILED_PRECONDITION when another node has it."""
    lease = await client.grant_lease(LEASE_SECONDS)
    try:
        if not await _try_lock(client, name, lease):
            raise RpcError(Code.FAILED_PRECONDITION, f"another node holds the lock {name}, try again later")
        yield
    finally:
        # The key goes with its lease.
        with trio.move_on_after(RELEASE_LIMIT, shield=True), suppress(RpcError):
            await client.revoke_lease(lease)


async def _try_lock(client: EtcdClient, name: str, lease: int) -> bool:
    """Put a key of this lease below the name; the oldest of those keys is the holder's."""
    prefix = f"{name}/".encode()
    key = prefix + f"{lease:x}".encode()
    oldest = pb.RangeRequest(
        key=prefix,
        range_end=prefix[:-1] + bytes([prefix[-1] + 1]),
        sort_order=pb.RangeRequest.ASCEND,
        sort_target=pb.RangeRequest.CREATE,
        limit=1,
    )
    is_new = pb.Compare(key=key, target=pb.Compare.CREATE, result=pb.Compare.EQUAL, create_revision=0)
    reply = await client.txn(
        pb.TxnRequest(
            compare=[is_new],
            success=[
                pb.RequestOp(request_put=pb.PutRequest(key=key, lease=lease)),
                pb.RequestOp(request_range=oldest),
            ],
        )
    )
    holders = reply.responses[-1].response_range.kvs if reply.succeeded else ()
    return any(holder.key == key for holder in holders)
