"""The lock that one node has at a time, over etcd's twin."""

from typing import Any, cast

import pytest

from talos.api.etcd import kv_pb2
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd.lock import LEASE_TTL, release_all, release_lease, take_lock

from .twin import Etcd

NAME = "talos:v1:test"


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
    await release_all(client, NAME, "cp-2")
    await release_lease(client, 0xB1)
    assert b"talos:v1:test/a1" in etcd.keys
    await release_lease(client, 0xA1)
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
    await release_all(client, NAME, "cp-1", but=0xA2)
    assert list(etcd.keys) == [b"talos:v1:test/a2"]
    with pytest.raises(RpcError, match="cp-1 holds the lock"):
        await take_lock(client, NAME, "cp-2", 0xB1)


async def test_what_was_taken_before_lasts_when_the_next_is_given_back(etcd: Etcd, client: Any) -> None:
    await take_lock(client, NAME, "cp-1", 0xA1)
    await take_lock(client, NAME, "cp-1", 0xA2)
    await release_lease(client, 0xA2)
    await release_lease(client, 0xA2)
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


async def test_of_two_requests_at_once_the_older_key_wins(etcd: Etcd) -> None:
    with pytest.raises(RpcError, match="cp-1 holds the lock"):
        await take_lock(cast("Any", Late(etcd)), NAME, "cp-2", 0xB1)
    assert etcd.holders() == ["cp-1"]
    assert etcd.leases == {0xA1}


async def test_a_claim_that_was_refused_and_stayed_is_given_back_later(etcd: Etcd, client: Any) -> None:
    await take_lock(client, NAME, "cp-1", 0xA1)
    await etcd.grant_lease(LEASE_TTL, 0xB1)
    key = b"talos:v1:test/b1"
    etcd.keys[key] = kv_pb2.KeyValue(key=key, value=b"cp-2", lease=0xB1)
    with pytest.raises(RpcError, match="cp-1 holds the lock"):
        await take_lock(client, NAME, "cp-2", 0xB1)
    assert etcd.holders() == ["cp-1"]
