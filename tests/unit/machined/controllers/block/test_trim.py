"""When filesystems are trimmed, and which."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.schedule import find_next
from talos.machined.controllers.block.trim import VolumeTrimController
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

HOUR = 3600 * 10**9
WEEK = 168 * HOUR
NODE = "2rsjRPcNQCy3K62jeoZQ3Rl2r0e4Fp5Fhbo9BgAVfOPD"


@dataclass
class World:
    """A node whose clock the test sets."""

    now: int = 1_700_000_000 * 10**9
    state: MemoryState = field(default_factory=MemoryState)
    trimmed: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    error: int = 0

    def trim(self, target: str) -> int:
        self.trimmed.append(target)
        if self.error:
            raise OSError(self.error, "Operation not supported")
        return 5 << 20

    async def run(self) -> None:
        log = Log(write=self.lines.append)
        await run_controllers(self.state, [VolumeTrimController(self.trim, log, lambda: self.now)])

    async def add(self, *, read_only: bool = False, more: Mapping[str, int] | None = None) -> None:
        def status(spec: block_pb2.VolumeStatusSpec) -> None:
            spec.phase, spec.trim_enabled = enums.VOLUME_PHASE_READY, True
            spec.filesystem = enums.FILESYSTEM_TYPE_XFS
            spec.trim_interval.FromNanoseconds(WEEK)
            for name, value in (more or {}).items():
                setattr(spec, name, value)

        def mount(spec: block_pb2.MountStatusSpec) -> None:
            spec.spec.volume_id, spec.target, spec.read_only = "EPHEMERAL", "/var", read_only

        await modify(self.state, kinds.VOLUME_STATUS, "EPHEMERAL", status)
        await modify(self.state, kinds.BLOCK_MOUNT_STATUS, "EPHEMERAL", mount)
        await modify(self.state, *ids.IDENTITY, lambda spec: setattr(spec, "node_id", NODE))

    async def next(self, *, after: int) -> int:
        found = await wait_for(
            self.state,
            kinds.VOLUME_TRIM_SCHEDULE,
            "EPHEMERAL",
            lambda found: found.spec.next_trim.ToNanoseconds() > after,
        )
        return found.spec.next_trim.ToNanoseconds()


def test_slots_are_spread_by_the_hash_of_node_and_volume() -> None:
    # FNV-1a of "a/b", computed by hand from the draft's formula
    value = 0xCBF29CE484222325
    for byte in b"a/b":
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    slot = find_next("a", "b", WEEK, 1_700_000_000 * 10**9)
    assert slot % WEEK == value % WEEK
    assert 0 < slot - 1_700_000_000 * 10**9 <= WEEK
    assert find_next("a", "b", WEEK, slot) == slot + WEEK, "the slot of this moment is over"


@pytest.mark.parametrize("error", [0, errno.EOPNOTSUPP])
async def test_a_volume_is_trimmed_when_it_is_due(error: int, autojump_clock: trio.testing.MockClock) -> None:
    world = World(error=error)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add()
        due = await world.next(after=0)
        assert due == find_next(NODE, "EPHEMERAL", WEEK, world.now)
        assert not world.trimmed, "what was due before the start is left out"
        world.now = due + HOUR
        assert await world.next(after=due) == due + WEEK
        assert world.trimmed == ["/var"]
        assert any(("can't be trimmed" if error else "trimmed volume") in line for line in world.lines)
        nursery.cancel_scope.cancel()


async def test_a_clock_that_was_set_back_does_not_put_it_off(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add()
        await world.next(after=0)
        world.now -= 10 * WEEK
        wanted = find_next(NODE, "EPHEMERAL", WEEK, world.now)
        await wait_for(
            world.state,
            kinds.VOLUME_TRIM_SCHEDULE,
            "EPHEMERAL",
            lambda found: found.spec.next_trim.ToNanoseconds() == wanted,
        )
        assert not world.trimmed
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("more", [{"trim_enabled": False}, {"encryption_provider": 1}])
async def test_some_are_not(more: dict[str, int], autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add(more=more)
        await trio.testing.wait_all_tasks_blocked()
        assert not await world.state.list(kinds.VOLUME_TRIM_SCHEDULE)
        nursery.cancel_scope.cancel()


async def test_a_volume_that_is_read_only_waits_for_its_next_slot(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add(read_only=True)
        due = await world.next(after=0)
        world.now = due + HOUR
        assert await world.next(after=due) == due + WEEK
        assert not world.trimmed
        nursery.cancel_scope.cancel()
