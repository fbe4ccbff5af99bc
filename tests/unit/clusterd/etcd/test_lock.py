"""The lock that one node holds at a time, over etcd's twin."""

from typing import Any, cast

import pytest

from talos.api.etcd import kv_pb2
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.lock import hold_lock


class Etcd:
    """Keys under leases, in the order in which they were made."""

    def __init__(self) -> None:
        self.keys: dict[bytes, int] = {}
        self.leases = 0

    async def grant_lease(self, seconds: int) -> int:
        assert seconds == 60
        self.leases += 1
        return 0xA0 + self.leases

    async def revoke_lease(self, lease: int) -> None:
        self.keys = {key: found for key, found in self.keys.items() if found != lease}

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        put, oldest = (operation for operation in request.success)
        self.keys[put.request_put.key] = put.request_put.lease
        prefix, end = oldest.request_range.key, oldest.request_range.range_end
        found = [key for key in self.keys if prefix <= key < end][:1]
        kvs = pb.RangeResponse(kvs=[kv_pb2.KeyValue(key=key) for key in found])
        return pb.TxnResponse(succeeded=True, responses=[pb.ResponseOp(), pb.ResponseOp(response_range=kvs)])


async def test_one_holds_it_at_a_time() -> None:
    etcd = Etcd()
    client = cast("Any", etcd)
    async with hold_lock(client, "talos:v1:test"):
        assert list(etcd.keys) == [b"talos:v1:test/a1"]
        with pytest.raises(RpcError, match="another node holds the lock") as caught:
            async with hold_lock(client, "talos:v1:test"):
                pass
        assert caught.value.code is Code.FAILED_PRECONDITION
        async with hold_lock(client, "talos:v1:other"):
            pass
        assert list(etcd.keys) == [b"talos:v1:test/a1"]
    assert not etcd.keys
    async with hold_lock(client, "talos:v1:test"):
        pass
