"""Etcd as locks use it."""

from math import inf

import trio

from talos.api.etcd import kv_pb2
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError


class Etcd:
    """Keys under leases, which end by the clock, in the order in which they were made."""

    def __init__(self) -> None:
        self.keys: dict[bytes, kv_pb2.KeyValue] = {}
        self.ends: dict[int, float] = {}
        """Those of leases."""
        self.periods: dict[int, int] = {}
        """Theirs, in seconds."""
        self.writes = 0

    @property
    def leases(self) -> set[int]:
        return set(self.ends)

    async def grant_lease(self, seconds: int, lease: int) -> int:
        self.periods[lease] = seconds
        self.ends[lease] = trio.current_time() + seconds
        return lease

    async def keep_lease(self, lease: int) -> int:
        self._expire()
        if lease not in self.leases:
            return 0
        self.ends[lease] = trio.current_time() + self.periods[lease]
        return self.periods[lease]

    async def revoke_lease(self, lease: int) -> None:
        if lease not in self.leases:
            raise RpcError(Code.NOT_FOUND, "etcdserver: requested lease not found")
        self.ends[lease] = -inf
        self._expire()

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        self._expire()
        replies: list[pb.ResponseOp] = []
        for operation in request.success:
            if operation.HasField("request_put"):
                put = operation.request_put
                assert put.lease in self.leases
                self.writes += 1
                self.keys[put.key] = kv_pb2.KeyValue(key=put.key, value=put.value, lease=put.lease)
                replies.append(pb.ResponseOp())
            else:
                wanted = operation.request_range
                found = [key for name, key in self.keys.items() if wanted.key <= name < wanted.range_end]
                limited = found[: wanted.limit or None]
                replies.append(pb.ResponseOp(response_range=pb.RangeResponse(kvs=limited)))
        return pb.TxnResponse(succeeded=True, responses=replies)

    def _expire(self) -> None:
        self.ends = {lease: end for lease, end in self.ends.items() if end > trio.current_time()}
        self.keys = {name: key for name, key in self.keys.items() if key.lease in self.leases}

    def holders(self) -> list[str]:
        return [key.value.decode() for key in self.keys.values()]
