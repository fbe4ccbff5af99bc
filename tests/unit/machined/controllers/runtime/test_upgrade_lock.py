"""When a node holds the lock of upgrades, on trial, and gives back what an earlier boot took: after it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.api.rpc import Code, RpcError
from talos.machined.controllers.runtime.upgrade_lock import RENEWAL, RETRY, UpgradeLockController
from talos.resource import kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.upgrade.state import IDLE, Upgrade, bless, revert, stage, start

STAGED = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0")
TRIAL = start(STAGED, running="B", cause="")


class World:
    """A node with etcd, which may refuse for a while."""

    def __init__(self) -> None:
        self.state, self.ended, self.refusals, self.held = MemoryState(), 0, 0, 0
        self.listeners: list[Any] = []
        self.upgrader = SimpleNamespace(current=IDLE, has_begun=True, listen=self.listeners.append)
        self.controller = UpgradeLockController(
            cast("Any", self.upgrader), cast("Any", self), Log(write=lambda _: None)
        )

    async def release_earlier(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.refusals:
            self.refusals -= 1
            raise RpcError(Code.UNAVAILABLE, "no leader")
        self.ended += 1

    async def hold_on_trial(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.refusals:
            self.refusals -= 1
            raise RpcError(Code.ABORTED, "another node holds the lock")
        self.held += 1

    async def set_etcd(self, *, healthy: bool) -> None:
        await put(self.state, kinds.SERVICE, "etcd", ServiceSpec(running=True, healthy=healthy))

    async def move(self, upgrade: Upgrade) -> int:
        """Put the node into a state; how often the lock has been given back since the start."""
        self.upgrader.current = upgrade
        for listener in self.listeners:
            listener()
        await trio.sleep(10 * RETRY)
        return self.ended


async def test_a_trial_holds_it_until_the_verdict(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever the boot before had: a power cut takes no lock, and a lease may have come to its end."""
    del autojump_clock
    world = World()
    world.refusals = 3
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [world.controller])
        await trio.testing.wait_all_tasks_blocked()
        await world.move(TRIAL)
        assert (world.refusals, world.held) == (3, 0), "etcd is not called before it is healthy"
        await world.set_etcd(healthy=True)
        await world.move(TRIAL)
        assert (world.refusals, world.held) == (0, 1)
        await trio.sleep(RENEWAL)
        assert world.held == 2
        assert await world.move(bless(TRIAL)) == 1
        await trio.sleep(2 * RENEWAL)
        assert world.held == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("verdict", [bless(TRIAL), revert(TRIAL, "no network")])
async def test_it_is_given_back_after_the_verdict(
    verdict: Upgrade, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [world.controller])
        await trio.testing.wait_all_tasks_blocked()
        assert await world.move(TRIAL) == 0
        await world.set_etcd(healthy=False)
        assert await world.move(verdict) == 0
        await world.set_etcd(healthy=True)
        assert await world.move(verdict) == 1
        assert await world.move(verdict) == 1, "once is enough"
        assert await world.move(STAGED) == 1
        assert await world.move(IDLE) == 1, "what this boot has taken is given back by the next one"
        nursery.cancel_scope.cancel()


async def test_a_boot_without_a_trial_gives_it_back_when_etcd_takes_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    world = World()
    world.refusals = 3
    await world.set_etcd(healthy=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [world.controller])
        await trio.testing.wait_all_tasks_blocked()
        assert await world.move(IDLE) == 1
        assert world.refusals == 0
        nursery.cancel_scope.cancel()
