"""When filesystems are checked, which, and what is shown of it."""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.schedule import find_next
from talos.disks.volumes.scrubber import Scrubber
from talos.machined.controllers.block.scrub import FSScrubController
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.block.scrub import Findings
from talos.system.logging import Log

HOUR = 3600 * 10**9
WEEK = 168 * HOUR
NODE = "2rsjRPcNQCy3K62jeoZQ3Rl2r0e4Fp5Fhbo9BgAVfOPD"
VOLUME, OTHER = "EPHEMERAL", "STATE"
TARGETS = {VOLUME: "/var", OTHER: "/system/state"}
TARGET = TARGETS[VOLUME]


@dataclass
class World:
    """A node whose clock the test sets; a check takes ``duration`` nanoseconds."""

    now: int = 1_700_000_000 * 10**9
    state: MemoryState = field(default_factory=MemoryState)
    scrubbed: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    damaged: int = 0
    error: int = 0
    duration: int = 10**9

    def scrub(self, target: str, check_stopped: Callable[[], None]) -> Findings:
        check_stopped()
        self.scrubbed.append(target)
        self.now += self.duration
        if self.error:
            raise OSError(self.error, "Inappropriate ioctl for device")
        findings = Findings()
        for number in range(self.damaged):
            findings.add(f"inode {number}: data")
        return findings

    async def run(self) -> None:
        controller = FSScrubController(Scrubber(self.scrub), Log(write=self.lines.append), lambda: self.now)
        await run_controllers(self.state, [controller])

    async def add(
        self, volume: str = VOLUME, *, read_only: bool = False, more: Mapping[str, int] | None = None
    ) -> None:
        def status(spec: block_pb2.VolumeStatusSpec) -> None:
            spec.phase, spec.scrub_enabled = enums.VOLUME_PHASE_READY, True
            spec.filesystem = enums.FILESYSTEM_TYPE_XFS
            spec.scrub_interval.FromNanoseconds(WEEK)
            for name, value in (more or {}).items():
                setattr(spec, name, value)

        def mount(spec: block_pb2.MountStatusSpec) -> None:
            spec.spec.volume_id, spec.target, spec.read_only = volume, TARGETS[volume], read_only

        await modify(self.state, kinds.VOLUME_STATUS, volume, status)
        await modify(self.state, kinds.BLOCK_MOUNT_STATUS, volume, mount)
        await modify(self.state, *ids.IDENTITY, lambda spec: setattr(spec, "node_id", NODE))

    async def next(self, *, after: int) -> int:
        found = await wait_for(
            self.state,
            kinds.FS_SCRUB_SCHEDULE,
            VOLUME,
            lambda found: found.spec.next_scrub.ToNanoseconds() > after,
        )
        return found.spec.next_scrub.ToNanoseconds()


@pytest.mark.parametrize(
    ("damaged", "error", "status"),
    [
        (0, 0, "success"),
        (1, 0, "inode 0: data"),
        (10, 0, "; ".join([*(f"inode {number}: data" for number in range(8)), "and 2 more"])),
        (0, errno.ENOTTY, "it can't be checked: Inappropriate ioctl for device"),
    ],
)
async def test_a_volume_is_checked_when_it_is_due(
    damaged: int, error: int, status: str, autojump_clock: trio.testing.MockClock
) -> None:
    world = World(damaged=damaged, error=error)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add()
        due = await world.next(after=0)
        assert due == find_next(NODE, VOLUME, WEEK, world.now)
        assert not world.scrubbed, "what was due before the start is left out"
        world.now = due + HOUR
        assert await world.next(after=due) == due + WEEK
        assert world.scrubbed == [TARGET]
        result = (await world.state.get(kinds.FS_SCRUB_STATUS, VOLUME)).spec
        assert (result.mountpoint, result.status) == (TARGET, status)
        assert result.time.ToNanoseconds() == due + HOUR
        assert (result.duration.seconds, result.interval.ToNanoseconds()) == (1, WEEK)
        assert any("damaged" in line for line in world.lines) == bool(damaged)
        nursery.cancel_scope.cancel()


async def test_what_becomes_due_during_another_check_is_checked_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add(OTHER)
        await world.add(VOLUME)
        await world.next(after=0)
        slots = {name: find_next(NODE, name, WEEK, world.now) for name in TARGETS}
        first, second = sorted(slots, key=lambda name: slots[name])
        world.duration = slots[second] - slots[first] + HOUR
        world.now = slots[first]
        await wait_for(
            world.state,
            kinds.FS_SCRUB_SCHEDULE,
            second,
            lambda found: found.spec.next_scrub.ToNanoseconds() > slots[second],
        )
        assert world.scrubbed == [TARGETS[first], TARGETS[second]]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "more", [{"scrub_enabled": False}, {"filesystem": enums.FILESYSTEM_TYPE_EXT4}, {"phase": 0}]
)
async def test_some_are_not(more: dict[str, int], autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add(more=more)
        await trio.testing.wait_all_tasks_blocked()
        assert not await world.state.list(kinds.FS_SCRUB_SCHEDULE)
        nursery.cancel_scope.cancel()


async def test_one_that_can_not_be_written_to_waits_for_its_next_slot(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await world.add(read_only=True)
        due = await world.next(after=0)
        world.now = due + HOUR
        assert await world.next(after=due) == due + WEEK
        assert not world.scrubbed
        assert not await world.state.list(kinds.FS_SCRUB_STATUS)
        nursery.cancel_scope.cancel()
