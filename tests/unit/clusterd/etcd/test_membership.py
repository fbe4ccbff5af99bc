"""How a node joins etcd, and when a member may go; with members of a test's."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from ipaddress import ip_address
from itertools import pairwise
from typing import Any, cast, override

import pytest
import trio
from tests.unit.etcd.twin import Etcd as Keys

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.membership import (
    JOIN_RETRY_INTERVAL,
    JOIN_TIMEOUT,
    LEARNER_TIMEOUT,
    LEAVE_RETRY_INTERVAL,
    LEAVE_TIMEOUT,
    STATUS_TIMEOUT,
    Membership,
    MemberStatus,
    check_removal,
)
from talos.etcd.client import UNHEALTHY
from talos.system.logging import Log

SPEC = SpecSpec(name="cp-3", advertised_addresses=[NetIP(ip=ip_address("10.0.0.4").packed)])


def member(number: int, name: str, last: int, *, is_learner: bool = False) -> pb.Member:
    clients = [f"https://10.0.0.{last}:2379"] if name else []
    return pb.Member(
        ID=number,
        name=name,
        peerURLs=[f"https://10.0.0.{last}:2380"],
        clientURLs=clients,
        isLearner=is_learner,
    )


class Etcd(Keys):
    """A cluster and the way to it. ``down`` are addresses that don't answer, ``cut_off`` reach no quorum.

    Removals end with ``failures``, one after the other.
    """

    def __init__(self, *members: pb.Member) -> None:
        super().__init__()
        self.list = list(members)
        self.down: set[str] = set()
        self.cut_off: set[str] = set()
        self.refusals: list[str] = []
        self.attempts: list[float] = []
        self.failures: list[RpcError] = []
        self.done: list[str] = []
        self.endpoint = "10.0.0.2"
        self.address = "10.0.0.2"
        self.own, self.leader = SpecSpec(name="cp-1"), 1

    async def spec(self) -> SpecSpec:
        return self.own

    async def peers(self) -> list[str]:
        return ["10.0.0.2", "10.0.0.3"]

    @asynccontextmanager
    async def member(self, address: str) -> AsyncGenerator["Etcd"]:
        if address in self.down:
            raise RpcError(Code.UNAVAILABLE, f"failed to connect to {address}")
        self.address = address
        yield self

    @asynccontextmanager
    async def other(self) -> AsyncGenerator["Etcd"]:
        self.attempts.append(trio.current_time())
        if self.refusals:
            raise RpcError(Code.UNAVAILABLE, self.refusals.pop())
        yield self

    any = local = other

    async def members(self, *, linearizable: bool = True) -> list[pb.Member]:
        del linearizable
        await trio.lowlevel.checkpoint()
        return list(self.list)

    async def status(self, seconds: float = 0) -> pb.StatusResponse:
        del seconds
        return pb.StatusResponse(header=pb.ResponseHeader(member_id=1), leader=self.leader)

    async def check_quorum(self) -> None:
        if self.address in self.cut_off:
            raise RpcError(Code.DEADLINE_EXCEEDED, "too late")

    async def add_learner(self, urls: list[str]) -> pb.MemberAddResponse:
        assert not any(one.isLearner for one in self.list), "etcd keeps each learner that it refuses"
        added = pb.Member(ID=97 + len(self.list), peerURLs=urls, isLearner=True)
        self.list.append(added)
        self.done.append("add")
        return pb.MemberAddResponse(member=added, members=self.list)

    def start_learner(self, name: str) -> None:
        """Let it vote."""
        self.list[-1].name, self.list[-1].isLearner = name, False

    async def remove_member(self, number: int) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.list = [one for one in self.list if number != one.ID]
        self.done.append(f"remove {number}")

    async def move_leader(self, target: int) -> None:
        self.done.append(f"lead {target}")


def make(etcd: Etcd) -> Membership:
    return Membership(cast("Any", etcd), Log(write=lambda _: None))


FIRST, SECOND, THIRD = member(1, "cp-1", 2), member(2, "cp-2", 3), member(3, "cp-3", 4)
URLS = [f"https://10.0.0.{last}:2380" for last in (4, 9)]


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
    ("healthy", "gone", "code"),
    [
        ({1, 2, 3}, 3, None),
        ({1, 2}, 3, None),
        ({1, 3}, 3, Code.FAILED_PRECONDITION),
        ({1}, 4, None),
        ({1, 2, 3}, 9, Code.NOT_FOUND),
    ],
)
def test_a_member_goes_only_if_the_others_have_a_quorum(
    healthy: set[int], gone: int, code: Code | None
) -> None:
    members = [FIRST, SECOND, member(3, "cp-3", 4), member(4, "cp-4", 5, is_learner=True)]
    status = MemberStatus(members=members, healthy=frozenset(healthy))
    if code is None:
        check_removal(status, gone)
        return
    with pytest.raises(RpcError) as caught:
        check_removal(status, gone)
    assert caught.value.code is code


def test_the_only_member_stays() -> None:
    with pytest.raises(RpcError, match="the only voting member"):
        check_removal(MemberStatus(members=[FIRST], healthy=frozenset({1})), 1)


async def test_a_member_that_answers_late_counts(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    etcd = Etcd(FIRST, SECOND, THIRD)
    etcd.down = {"10.0.0.3"}
    with pytest.raises(RpcError, match="2 voting members of which 1 are healthy"):
        await make(etcd).remove(3)
    assert etcd.done == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make(etcd).remove, 3)
        await trio.sleep(STATUS_TIMEOUT / 2)
        etcd.down = {"10.0.0.4"}
    assert etcd.done == ["remove 3"], "the one that goes need not answer"


async def test_a_member_that_answers_at_one_of_its_addresses_counts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    second = member(2, "cp-2", 3)
    second.clientURLs.insert(0, "https://10.0.0.8:2379")
    etcd = Etcd(FIRST, second, THIRD)
    etcd.down = {"10.0.0.8"}
    await make(etcd).check_upgrade(0xA1)
    await make(etcd).remove(3)


async def test_leaving_hands_the_leadership_over_first() -> None:
    etcd = Etcd(FIRST, SECOND, member(3, "cp-3", 4))
    await make(etcd).leave()
    assert etcd.done == ["lead 2", "remove 1"]


async def test_a_node_does_not_leave_while_the_others_need_it(autojump_clock: trio.testing.MockClock) -> None:
    etcd = Etcd(FIRST, SECOND, THIRD)
    await make(etcd).check_leave()
    etcd.down = {"10.0.0.3"}
    for leave in (make(etcd).check_leave, make(etcd).leave):
        with pytest.raises(RpcError, match="2 voting members of which 1 are healthy"):
            await leave()
    assert "remove 1" not in etcd.done
    assert autojump_clock.current_time() < LEAVE_TIMEOUT, "it is not tried again"


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


LATE = RpcError(Code.UNAVAILABLE, "x")


@pytest.mark.parametrize(
    ("failures", "code", "attempts", "seconds"),
    [
        ([LATE, RpcError(Code.FAILED_PRECONDITION, UNHEALTHY)], None, 3, 2 * LEAVE_RETRY_INTERVAL),
        ([RpcError(Code.NOT_FOUND, "x")], None, 1, 0),
        ([RpcError(Code.INTERNAL, "x")], Code.INTERNAL, 1, 0),
        ([LATE] * 100, Code.DEADLINE_EXCEEDED, LEAVE_TIMEOUT / LEAVE_RETRY_INTERVAL, LEAVE_TIMEOUT),
    ],
)
async def test_leaving_is_tried_again_while_the_cluster_is_not_healthy(
    failures: list[RpcError],
    code: Code | None,
    attempts: float,
    seconds: float,
    autojump_clock: trio.testing.MockClock,
) -> None:
    etcd = Etcd(FIRST, SECOND, THIRD)
    etcd.failures = list(failures)
    with pytest.raises(RpcError, match="x") if code else nullcontext() as caught:
        await make(etcd).leave()
    assert (caught.value.code if caught else None) is code
    assert len(failures) - len(etcd.failures) + etcd.done.count("remove 1") == attempts
    assert autojump_clock.current_time() == seconds


async def test_a_healthy_member_that_votes_is_the_next_leader(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    etcd = Etcd(FIRST, member(2, "cp-2", 3, is_learner=True), THIRD, member(4, "cp-4", 5))
    etcd.down = {"10.0.0.4"}
    assert (await make(etcd).forfeit(), etcd.done) == ("cp-4", ["lead 4"])
    etcd.down.add("10.0.0.5")
    with pytest.raises(RpcError, match="no other member of etcd is healthy and may lead") as caught:
        await make(etcd).forfeit()
    assert caught.value.code is Code.FAILED_PRECONDITION
    etcd.leader = 4
    assert (await make(etcd).forfeit(), etcd.done) == ("", ["lead 4"])


async def test_a_bootstrap_checks_for_other_clusters() -> None:
    etcd = Etcd(FIRST)
    with pytest.raises(RpcError, match=r"etcd runs on 10\.0\.0\.2 already") as caught:
        await make(etcd).check_no_cluster()
    assert caught.value.code is Code.ALREADY_EXISTS
    etcd.down = {"10.0.0.2", "10.0.0.3"}
    await make(etcd).check_no_cluster()


async def test_a_member_that_reaches_no_quorum_is_not_healthy() -> None:
    etcd = Etcd(FIRST, SECOND, THIRD)
    etcd.cut_off = {"10.0.0.3"}
    with pytest.raises(RpcError, match=r"etcd member cp-2 is not healthy; .*: too late"):
        await make(etcd).check_upgrade(0xA1)


async def test_the_lock_of_upgrades_is_one_nodes_until_it_gives_it_back() -> None:
    etcd = Etcd(FIRST, SECOND)
    assert (await make(etcd).lock_upgrade(0xA1), await make(etcd).lock_upgrade(0xA2)) == ("", "")
    etcd.own.name = "cp-2"
    assert "cp-1 is being upgraded and holds the lock" in await make(etcd).lock_upgrade(0xB1)
    await make(etcd).end_earlier_upgrades(0xB1)
    assert etcd.leases == {0xA1, 0xA2}
    etcd.own.name = "cp-1"
    await make(etcd).end_earlier_upgrades(0xA2)
    assert etcd.leases == {0xA2}
    await make(etcd).end_upgrade(0xA2)
    assert etcd.holders() == []


@pytest.mark.parametrize(
    ("members", "down", "code", "text"),
    [
        ([FIRST, SECOND, THIRD], "", None, ""),
        ([FIRST], "", None, ""),
        (
            [FIRST, SECOND, THIRD],
            "10.0.0.3",
            Code.UNAVAILABLE,
            "etcd member cp-2 is not healthy; all etcd members must be healthy to perform an upgrade: failed",
        ),
        (
            [FIRST, SECOND, member(3, "", 4)],
            "",
            Code.UNAVAILABLE,
            "etcd member 0000000000000003 is not started",
        ),
        (
            [FIRST, SECOND, pb.Member(ID=3, name="cp-3")],
            "",
            Code.UNAVAILABLE,
            "etcd member cp-3 is not healthy; .*: it has no address",
        ),
        ([FIRST, SECOND], "", Code.FAILED_PRECONDITION, r"etcd member count\(2\) is insufficient"),
    ],
)
async def test_every_member_is_probed_before_an_upgrade(
    members: list[pb.Member], down: str, code: Code | None, text: str
) -> None:
    etcd = Etcd(*members)
    etcd.down = {down}
    if code is None:
        await make(etcd).check_upgrade(0xA1)
    else:
        with pytest.raises(RpcError, match=text) as refused:
            await make(etcd).check_upgrade(0xA1)
        assert refused.value.code is code
    assert (etcd.holders(), etcd.leases) == (["cp-1"], {0xA1}), (
        "the lock is kept until the upgrade ends, or its caller gives up"
    )
