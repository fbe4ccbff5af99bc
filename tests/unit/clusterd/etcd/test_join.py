"""How a node becomes a member of etcd's cluster."""

from contextlib import nullcontext
from ipaddress import ip_address
from itertools import pairwise
from typing import Any, cast, override

import pytest
import trio
from tests.unit.clusterd.etcd.twin import FIRST, SECOND, SPEC, Etcd, member

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.join import JOIN_RETRY_INTERVAL, JOIN_TIMEOUT, LEARNER_TIMEOUT, MemberJoin
from talos.clusterd.etcd.members import STATUS_TIMEOUT
from talos.system.logging import Log

URLS = [f"https://10.0.0.{last}:2380" for last in (4, 9)]


def make(etcd: Etcd) -> MemberJoin:
    return MemberJoin(cast("Any", etcd), Log(write=lambda _: None))


async def test_a_node_is_added_as_a_learner() -> None:
    etcd = Etcd(FIRST, SECOND)
    assert await make(etcd).join(SPEC) == (
        "cp-1=https://10.0.0.2:2380,cp-2=https://10.0.0.3:2380,cp-3=https://10.0.0.4:2380"
    )
    assert etcd.done == ["add"]


async def test_a_member_that_was_added_but_never_started_is_taken_up() -> None:
    etcd = Etcd(FIRST, member(7, "", 4, is_learner=True))
    assert "cp-3=https://10.0.0.4:2380" in await make(etcd).join(SPEC)
    assert etcd.done == []


async def test_another_member_that_has_not_started_is_named_by_its_id() -> None:
    etcd = Etcd(FIRST, member(0x1F, "", 3))
    assert "000000000000001f=https://10.0.0.3:2380," in await make(etcd).join(SPEC)


@pytest.mark.parametrize(
    "former",
    [
        member(7, "cp-3", 4),
        member(7, "cp-3", 9),
        member(7, "old-name", 4),
        pb.Member(ID=7, peerURLs=URLS, isLearner=True),
        pb.Member(ID=7, name="cp-3", peerURLs=URLS),
    ],
)
async def test_the_former_member_of_a_node_is_removed_first(
    former: pb.Member, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    etcd = Etcd(FIRST, SECOND, former)
    etcd.down = {"10.0.0.4", "10.0.0.9"}
    await make(etcd).join(SPEC)
    assert etcd.done == ["remove 7", "add"]


async def test_the_former_member_of_a_node_stays_while_the_others_need_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    etcd = Etcd(FIRST, SECOND, member(7, "cp-3", 4))
    etcd.down = {"10.0.0.3", "10.0.0.4"}
    with pytest.raises(RpcError, match="could not join etcd: without it etcd has 2 voting members"):
        await make(etcd).join(SPEC)
    assert etcd.done == []


async def test_a_learner_of_no_node_that_never_started_makes_way(
    autojump_clock: trio.testing.MockClock,
) -> None:
    etcd = Etcd(FIRST, SECOND, member(7, "", 9, is_learner=True))
    await make(etcd).join(SPEC)
    assert etcd.done == ["remove 7", "add"]
    assert LEARNER_TIMEOUT <= autojump_clock.current_time() <= LEARNER_TIMEOUT + 2


@pytest.mark.parametrize("name", ["", "cp-2"])
async def test_a_learner_of_another_node_is_waited_for(
    name: str, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    etcd = Etcd(FIRST, member(7, name, 3, is_learner=True))
    reason = "could not join etcd: etcd takes one learner at a time, https://10.0.0.3:2380 is one"
    with pytest.raises(RpcError, match=reason):
        await make(etcd).join(SPEC)
    assert etcd.done == []
    assert not etcd.writes


async def test_nodes_that_join_at_once_are_added_one_after_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    etcd = Etcd(FIRST)
    async with trio.open_nursery() as nursery:
        for last in (3, 4, 5):
            address = NetIP(ip=ip_address(f"10.0.0.{last}").packed)
            spec = SpecSpec(name=f"cp-{last}", advertised_addresses=[address])
            nursery.start_soon(make(etcd).join, spec)
        for count in range(1, 4):
            await trio.sleep(2 * JOIN_RETRY_INTERVAL)
            assert etcd.done == ["add"] * count
            assert not etcd.keys, "the lock is free again"
            etcd.start_learner(f"other-{count}")
    assert len({url for one in etcd.list for url in one.peerURLs}) == 4


async def test_a_learner_that_comes_before_the_lock_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock

    class Busy(Etcd):
        """Another node is added just before the lock is taken."""

        @override
        async def grant_lease(self, seconds: int, lease: int) -> int:
            if len(self.list) == 1:
                self.list.append(member(7, "cp-2", 3, is_learner=True))
            return await super().grant_lease(seconds, lease)

    etcd = Busy(FIRST)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make(etcd).join, SPEC)
        await trio.sleep(5 * JOIN_RETRY_INTERVAL)
        assert (etcd.done, etcd.keys) == ([], {})
        etcd.start_learner("cp-2")
    assert etcd.done == ["add"]


async def test_a_node_that_moves_before_it_starts_replaces_its_learner(
    autojump_clock: trio.testing.MockClock,
) -> None:
    etcd = Etcd(FIRST, SECOND)
    membership = make(etcd)
    await membership.join(SPEC)
    moved = SpecSpec(name="cp-3", advertised_addresses=[NetIP(ip=ip_address("10.0.0.9").packed)])
    assert "cp-3=https://10.0.0.9:2380" in await membership.join(moved)
    assert etcd.done == ["add", "remove 99", "add"]
    assert autojump_clock.current_time() < STATUS_TIMEOUT, "it is not called"
    etcd.start_learner("cp-3")
    etcd.list[-1].clientURLs.append("https://10.0.0.9:2379")
    with pytest.raises(RpcError, match=r'another node named "cp-3" runs etcd at https://10\.0\.0\.9'):
        await membership.join(SPEC)


async def test_a_second_node_of_one_name_is_refused() -> None:
    etcd = Etcd(FIRST, SECOND, member(7, "cp-3", 9))
    with pytest.raises(
        RpcError, match=r'another node named "cp-3" runs etcd at https://10\.0\.0\.9'
    ) as caught:
        await make(etcd).join(SPEC)
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert etcd.done == []


async def test_joining_waits_for_the_cluster(autojump_clock: object) -> None:
    del autojump_clock
    etcd = Etcd(FIRST)
    etcd.refusals = ["no leader", "none is known"]
    await make(etcd).join(SPEC)
    assert etcd.done == ["add"]
    etcd.refusals = ["none is known"] * int(2 * JOIN_TIMEOUT)
    with pytest.raises(RpcError, match="could not join etcd: none is known"):
        await make(etcd).join(SPEC)


async def test_attempts_to_join_become_rarer_while_no_member_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    etcd = Etcd(FIRST, member(7, "cp-2", 3, is_learner=True))
    etcd.refusals = ["none is known"] * 50
    with pytest.raises(RpcError, match="could not join etcd: etcd takes one learner at a time"):
        await make(etcd).join(SPEC)
    pauses = [round(later - before, 3) for before, later in pairwise(etcd.attempts)]
    assert pauses[:40] == [round(1 + number / 10, 3) for number in range(1, 41)]
    assert pauses[40:50] == [5.0] * 10
    assert set(pauses[50:]) == {1.0}, "one that answers may be free soon"


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (member(7, "cp-3", 9), "etcd has the member 0000000000000007 of this node"),
        (member(7, "", 4, is_learner=True), "etcd has the member 0000000000000007 of this node"),
        (member(7, "cp-4", 9), ""),
    ],
)
async def test_the_others_list_whether_a_node_has_a_member(listed: pb.Member, reason: str) -> None:
    etcd = Etcd(FIRST, SECOND, listed)
    etcd.own = SPEC
    with pytest.raises(RpcError, match=reason) if reason else nullcontext() as caught:
        await make(etcd).check_no_member()
    assert (caught.value.code if caught else None) is (Code.FAILED_PRECONDITION if reason else None)


async def test_without_an_answer_a_node_may_have_a_member() -> None:
    etcd = Etcd(FIRST, SECOND)
    etcd.refusals = ["no etcd member answers: none is known"]
    with pytest.raises(RpcError, match="none is known") as caught:
        await make(etcd).check_no_member()
    assert caught.value.code is Code.UNAVAILABLE


async def test_a_bootstrap_checks_for_other_clusters() -> None:
    etcd = Etcd(FIRST)
    with pytest.raises(RpcError, match=r"etcd runs on 10\.0\.0\.2 already") as caught:
        await make(etcd).check_no_cluster()
    assert caught.value.code is Code.ALREADY_EXISTS
    etcd.down = {"10.0.0.2", "10.0.0.3"}
    await make(etcd).check_no_cluster()
