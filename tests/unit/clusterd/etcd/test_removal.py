"""How members leave etcd's cluster."""

from contextlib import nullcontext
from typing import Any, cast

import pytest
import trio
from tests.unit.clusterd.etcd.twin import FIRST, SECOND, THIRD, Etcd, member

from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.members import STATUS_TIMEOUT
from talos.clusterd.etcd.removal import LEAVE_RETRY_INTERVAL, LEAVE_TIMEOUT, MemberRemoval
from talos.clusterd.etcd.upgrade_lock import UpgradeLock
from talos.etcd.client import UNHEALTHY
from talos.system.logging import Log


def make(etcd: Etcd) -> MemberRemoval:
    return MemberRemoval(cast("Any", etcd), Log(write=lambda _: None))


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
    await UpgradeLock(cast("Any", etcd)).take_when_safe(0xA1)
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
