"""The lock that one node has at a time, over etcd's twin."""

from typing import Any, cast

import pytest

from talos.api.etcd import kv_pb2
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd.lock import LEASE_SECONDS, free_all, free_lock, take_lock

NAME = "talos:v1:test"


class Etcd:
    """Keys under leases, in the order in which they were made."""

    def __init__(self) -> None:
        self.keys: dict[bytes, kv_pb2.KeyValue] = {}
        self.leases = set[int]()
        self.writes = 0

    async def grant_lease(self, seconds: int, lease: int) -> int:
        assert seconds == LEASE_SECONDS
        self.leases.add(lease)
        return lease

    async def keep_lease(self, lease: int) -> int:
        return LEASE_SECONDS if lease in self.leases else 0

    async def revoke_lease(self, lease: int) -> None:
        if lease not in self.leases:
            raise RpcError(Code.NOT_FOUND, "etcdserver: requested lease not found")
        self.leases.remove(lease)
        self.keys = {name: key for name, key in self.keys.items() if key.lease != lease}

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
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

    def holders(self) -> list[str]:
        return [key.value.decode() for key in self.keys.values()]


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


@pytest.fixture
def client(etcd: Etcd) -> Any:
    return cast("Any", etcd)


async def test_one_node_has_it_at_a_time(etcd: Etcd, client: Any) -> None:
    await take_lock(client, NAME, "cp-1", 0xA1)
    assert list(etcd.keys) == [b"talos:v1:test/a1"]
    with pytest.raises(RpcError, match="cp-1 holds the lock talos:v1:test") as caught:
        await take_lock(client, NAME, "cp-2", 0xB1)
    assert caught.value.code is Code.ABORTED
    assert etcd.writes == 1, "whoever waits writes nothing"
    await take_lock(client, "talos:v1:other", "cp-2", 0xB2)
    await free_all(client, NAME, "cp-2")
    await free_lock(client, 0xB1)
    assert b"talos:v1:test/a1" in etcd.keys
    await free_lock(client, 0xA1)
    await take_lock(client, NAME, "cp-2", 0xB1)


async def test_its_holder_prolongs_it(etcd: Etcd, client: Any) -> None:
    await take_lock(client, NAME, "cp-1", 0xA1)
    await take_lock(client, NAME, "cp-1", 0xA1)
    assert list(etcd.keys) == [b"talos:v1:test/a1"]


async def test_what_was_taken_before_is_given_back_apart_from_what_is_taken_now(
    etcd: Etcd, client: Any
) -> None:
    """An upgrade may begin in the moment in which the end of the one before it is noticed."""
    await take_lock(client, NAME, "cp-1", 0xA1)
    await take_lock(client, NAME, "cp-1", 0xA2)
    await free_all(client, NAME, "cp-1", but=0xA2)
    assert list(etcd.keys) == [b"talos:v1:test/a2"]
    with pytest.raises(RpcError, match="cp-1 holds the lock"):
        await take_lock(client, NAME, "cp-2", 0xB1)


async def test_what_was_taken_before_lasts_when_the_next_is_given_back(etcd: Etcd, client: Any) -> None:
    await take_lock(client, NAME, "cp-1", 0xA1)
    await take_lock(client, NAME, "cp-1", 0xA2)
    await free_lock(client, 0xA2)
    await free_lock(client, 0xA2)
    assert list(etcd.keys) == [b"talos:v1:test/a1"]


async def test_it_is_free_when_its_lease_has_ended(etcd: Etcd, client: Any) -> None:
    await take_lock(client, NAME, "cp-1", 0xA1)
    await etcd.revoke_lease(0xA1)
    await take_lock(client, NAME, "cp-2", 0xB1)
    assert etcd.holders() == ["cp-2"]


class Late:
    """A client whose rival's key comes right after its first look."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self._is_first = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._etcd, name)

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        reply = await self._etcd.txn(request)
        if self._is_first:
            self._is_first = False
            await take_lock(cast("Any", self._etcd), NAME, "cp-1", 0xA1)
        return reply


async def test_of_two_that_ask_at_once_the_older_key_wins(etcd: Etcd) -> None:
    with pytest.raises(RpcError, match="cp-1 holds the lock"):
        await take_lock(cast("Any", Late(etcd)), NAME, "cp-2", 0xB1)
    assert etcd.holders() == ["cp-1"]
    assert etcd.leases == {0xA1}


async def test_a_claim_that_was_refused_and_stayed_is_given_back_later(etcd: Etcd, client: Any) -> None:
    await take_lock(client, NAME, "cp-1", 0xA1)
    await etcd.grant_lease(LEASE_SECONDS, 0xB1)
    key = b"talos:v1:test/b1"
    etcd.keys[key] = kv_pb2.KeyValue(key=key, value=b"cp-2", lease=0xB1)
    with pytest.raises(RpcError, match="cp-1 holds the lock"):
        await take_lock(client, NAME, "cp-2", 0xB1)
    assert etcd.holders() == ["cp-1"]
