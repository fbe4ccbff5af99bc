"""One control plane node is down at a time, however long the pods of the one before take to end."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest
import trio
import trio.testing
from google.protobuf.empty_pb2 import Empty
from tests.unit.etcd.twin import Etcd

from talos.api.definitions import enums_pb2 as enums
from talos.api.internal.membership_pb2 import LockUpgradeResponse
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd.lock import LEASE_TTL, UPGRADE, LockedError, release_lease, take_lock
from talos.machined.boot.sequence_lock import SequenceLock
from talos.machined.node import etcd_data
from talos.machined.services.upgrade_lock import EtcdLock
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.power import PowerAction

from .test_power import Machine, Services, run_inline, succeed

FIFTEEN_MINUTES = 900.0
"""Seconds that a pod takes to end, of the 1,200 that a kubelet may be configured to give it."""
DRAIN_SECONDS = 350.0


@pytest.fixture(autouse=True)
def member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Etcd has run on these nodes; the mock clock must not jump while a thread looks for its data."""
    run_inline(monkeypatch)
    monkeypatch.setattr(etcd_data, "has_data", lambda: True)


class Clusterd:
    """That of one control plane node, as far as its lock goes; it is silent while it is down."""

    def __init__(self, etcd: Etcd, name: str) -> None:
        self.client = cast("Any", etcd)
        self.name = name
        self.is_down = False

    @asynccontextmanager
    async def connect(self, path: str) -> AsyncGenerator[Any]:
        assert path.endswith("/clusterd.sock")
        if self.is_down:
            raise ConnectionRefusedError(111, "Connection refused")
        yield self

    async def unary(self, method: str, request: Any, reply: Any) -> Any:
        del reply
        await trio.lowlevel.checkpoint()
        take = partial(take_lock, self.client, UPGRADE, self.name, request.lease)
        match method.rpartition("/")[2]:
            case "CheckUpgrade":
                await take()
            case "LockUpgrade":
                try:
                    await take()
                except LockedError as error:
                    return LockUpgradeResponse(refusal=error.message)
                return LockUpgradeResponse()
            case "EndUpgrade":
                await release_lease(self.client, request.lease)
            case _:
                raise AssertionError(method)
        return Empty()


async def is_free(etcd: Etcd) -> bool:
    """Whether another node would be let go down."""
    try:
        await take_lock(cast("Any", etcd), UPGRADE, "cp-2", 0xB1)
    except RpcError:
        return False
    return True


@pytest.mark.parametrize("sequence", ["reboot", "upgrade"])
async def test_the_lock_lasts_while_a_pod_takes_fifteen_minutes_to_end(
    autojump_clock: trio.testing.MockClock, sequence: str
) -> None:
    del autojump_clock
    etcd = Etcd()
    lock = EtcdLock(Clusterd(etcd, "cp-1").connect, MemoryState())
    times: list[float] = []

    async def check(at: float) -> None:
        """Another node tries; no member is called once this one is down."""
        await trio.sleep(at)
        assert not await is_free(etcd), f"two nodes may be down {at:.0f} s after the first one began"
        times.append(at)

    async def stop() -> None:
        [end] = etcd.ends.values()
        assert end - trio.current_time() == pytest.approx(LEASE_TTL), "it is taken anew before services stop"
        await check(50)

    await lock.take(lambda _: None)
    async with trio.open_nursery() as nursery:
        machine = Machine(
            nursery,
            Services(stop=stop),
            drain=partial(trio.sleep, DRAIN_SECONDS),
            shut_kubelet_down=partial(trio.sleep, FIFTEEN_MINUTES),
        )
        if sequence == "reboot":
            machine.power.reboot(is_upgrade=True, lock=lock)
        else:
            machine.power.upgrade(succeed, staged=False, lock=lock)
        for at in (600, 1199, 1201, 1249):
            nursery.start_soon(check, at)
    assert machine.switch.pressed == [PowerAction.REBOOT]
    assert len(times) == 5


async def test_a_node_stays_up_when_another_one_has_the_lock(autojump_clock: trio.testing.MockClock) -> None:
    """Its own was not renewed, as etcd was out of reach for too long."""
    del autojump_clock
    etcd = Etcd()
    clusterd = Clusterd(etcd, "cp-1")
    lock, resumed, stayed = EtcdLock(clusterd.connect, MemoryState()), list[float](), list[float]()

    async def shut_kubelet_down() -> None:
        await trio.sleep(FIFTEEN_MINUTES)
        assert await is_free(etcd)
        clusterd.is_down = False

    async def resume() -> None:
        await trio.lowlevel.checkpoint()
        resumed.append(trio.current_time())

    await lock.take(lambda _: None)
    clusterd.is_down = True
    async with trio.open_nursery() as nursery:
        machine = Machine(
            nursery,
            Services(),
            drain=partial(trio.sleep, DRAIN_SECONDS),
            shut_kubelet_down=shut_kubelet_down,
            resume=resume,
        )
        machine.stage.set(enums.MACHINE_STAGE_RUNNING)
        actor = machine.power.upgrade(
            succeed, staged=False, lock=lock, stay=lambda: stayed.append(trio.current_time())
        )
        assert machine.stage.value == enums.MACHINE_STAGE_UPGRADING
    assert (machine.switch.pressed, machine.services.kept, machine.services.denied) == ([], [], "")
    assert machine.stage.value == enums.MACHINE_STAGE_RUNNING
    assert (len(resumed), len(stayed), etcd.holders()) == (1, 1, ["cp-2"])
    assert any("the node stays up" in line and "cp-2 is being upgraded" in line for line in machine.lines)
    assert any("is not renewed" in line and "Connection refused" in line for line in machine.lines)
    failures: list[str] = []
    async with machine.events.follow(tail=-1) as events:
        while not failures:
            event = await anext(events)
            if isinstance(event.payload, pb.SequenceEvent) and event.payload.HasField("error"):
                assert event.actor_id == actor
                failures.append(event.payload.error.message)
    assert "cp-2 is being upgraded" in failures[0], "whoever began it gets the reason"

    await release_lease(cast("Any", etcd), 0xB1)
    async with trio.open_nursery() as nursery:
        again = Machine(nursery, Services())
        again.power.reboot(is_upgrade=True, lock=lock)
    assert again.switch.pressed == [PowerAction.REBOOT]


async def test_a_refusal_without_a_text_keeps_the_node_up() -> None:
    class Lock(EtcdLock):
        async def take(self, report: Callable[[str], None]) -> None:
            await trio.lowlevel.checkpoint()
            raise RpcError(Code.INTERNAL, "")

    lock = SequenceLock(Lock(Clusterd(Etcd(), "cp-1").connect, MemoryState()), Log(write=lambda _: None))
    with pytest.raises(RpcError):
        await lock.take()
    assert lock.refusal == "INTERNAL"


async def test_a_lock_without_an_answer_keeps_the_node_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    clusterd = Clusterd(Etcd(), "cp-1")
    clusterd.is_down = True
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services())
        machine.power.reboot(is_upgrade=True, lock=EtcdLock(clusterd.connect, MemoryState()))
    assert (machine.switch.pressed, machine.services.kept) == ([], [])
    assert any("clusterd does not answer" in line for line in machine.lines)
