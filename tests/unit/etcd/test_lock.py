"""The lock that one node has at a time, over etcd's twin."""

from typing import Any, cast

import pytest

from talos.api.etcd import kv_pb2
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd.lock import LEASE_SECONDS, free_lock, take_lock

NAME = "talos:v1:test"


class Etcd:
    """Keys under leases, in the order in which they were made."""

    def __init__(self) -> None:
        self.keys: dict[bytes, kv_pb2.KeyValue] = {}
        self.leases = 0
        self.kept: list[int] = []

    async def grant_lease(self, seconds: int) -> int:
        assert seconds == LEASE_SECONDS
        self.leases += 1
        return 0xA0 + self.leases

    async def keep_lease(self, lease: int) -> int:
        self.kept.append(lease)
        return LEASE_SECONDS if any(key.lease == lease for key in self.keys.values()) else 0

    async def revoke_lease(self, lease: int) -> None:
        self.keys = {name: key for name, key in self.keys.items() if key.lease != lease}

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        replies: list[pb.ResponseOp] = []
        for operation in request.success:
            if operation.HasField("request_put"):
                put = operation.request_put
                self.keys[put.key] = kv_pb2.KeyValue(key=put.key, value=put.value, lease=put.lease)
                replies.append(pb.ResponseOp())
            else:
                wanted = operation.request_range
                found = [key for name, key in self.keys.items() if wanted.key <= name < wanted.range_end]
                limited = found[: wanted.limit or None]
                replies.append(pb.ResponseOp(response_range=pb.RangeResponse(kvs=limited)))
        return pb.TxnResponse(succeeded=True, responses=replies)


async def test_one_node_has_it_at_a_time() -> None:
    etcd = Etcd()
    client = cast("Any", etcd)
    await take_lock(client, NAME, "cp-1")
    assert list(etcd.keys) == [b"talos:v1:test/a1"]
    with pytest.raises(RpcError, match="cp-1 holds the lock talos:v1:test") as caught:
        await take_lock(client, NAME, "cp-2")
    assert caught.value.code is Code.ABORTED
    await take_lock(client, "talos:v1:other", "cp-2")
    await free_lock(client, NAME, "cp-2")
    assert b"talos:v1:test/a1" in etcd.keys
    await free_lock(client, NAME, "cp-1")
    await take_lock(client, NAME, "cp-2")


async def test_its_holder_prolongs_it() -> None:
    etcd = Etcd()
    client = cast("Any", etcd)
    assert await take_lock(client, NAME, "cp-1")
    assert not await take_lock(client, NAME, "cp-1"), "it is not taken anew"
    assert (list(etcd.keys), etcd.kept) == ([b"talos:v1:test/a1"], [0xA1])


async def test_it_is_free_when_its_lease_has_ended() -> None:
    etcd = Etcd()
    client = cast("Any", etcd)
    await take_lock(client, NAME, "cp-1")
    await etcd.revoke_lease(0xA1)
    await take_lock(client, NAME, "cp-2")
    assert [key.value for key in etcd.keys.values()] == [b"cp-2"]


async def test_of_two_that_ask_at_once_the_older_key_wins() -> None:
    etcd = Etcd()
    client = cast("Any", etcd)

    class Late(Etcd):
        """The first look of a node whose rival's key comes right after it."""

        async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
            reply = await etcd.txn(request)
            if len(request.success) == 1 and not etcd.keys:
                await take_lock(client, NAME, "cp-1")
            return reply

    late = Late()
    late.revoke_lease = etcd.revoke_lease
    late.leases = 0x10
    with pytest.raises(RpcError, match="cp-1 holds the lock"):
        await take_lock(cast("Any", late), NAME, "cp-2")
    assert [key.value for key in etcd.keys.values()] == [b"cp-1"]
