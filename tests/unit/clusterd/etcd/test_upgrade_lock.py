"""Whether a node may be down for an upgrade."""

from typing import Any, cast

import pytest
from tests.unit.clusterd.etcd.twin import FIRST, SECOND, THIRD, Etcd, member

from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.upgrade_lock import UpgradeLock


def make(etcd: Etcd) -> UpgradeLock:
    return UpgradeLock(cast("Any", etcd))


async def test_a_member_that_reaches_no_quorum_is_not_healthy() -> None:
    etcd = Etcd(FIRST, SECOND, THIRD)
    etcd.cut_off = {"10.0.0.3"}
    with pytest.raises(RpcError, match=r"etcd member cp-2 is not healthy; .*: too late"):
        await make(etcd).take_when_safe(0xA1)


async def test_the_lock_of_upgrades_is_one_nodes_until_it_gives_it_back() -> None:
    etcd = Etcd(FIRST, SECOND)
    assert (await make(etcd).take(0xA1), await make(etcd).take(0xA2)) == ("", "")
    etcd.own.name = "cp-2"
    assert "cp-1 is being upgraded and holds the lock" in await make(etcd).take(0xB1)
    await make(etcd).release_earlier(0xB1)
    assert etcd.leases == {0xA1, 0xA2}
    etcd.own.name = "cp-1"
    await make(etcd).release_earlier(0xA2)
    assert etcd.leases == {0xA2}
    await make(etcd).release(0xA2)
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
        await make(etcd).take_when_safe(0xA1)
    else:
        with pytest.raises(RpcError, match=text) as refused:
            await make(etcd).take_when_safe(0xA1)
        assert refused.value.code is code
    assert (etcd.holders(), etcd.leases) == (["cp-1"], {0xA1}), (
        "the lock is kept until the upgrade ends, or its caller gives up"
    )
