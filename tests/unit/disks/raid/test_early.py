"""The array with the system is started before the controllers run, for what a kernel argument erases."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from trio.testing import MockClock

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec, DiscoveryRefreshStatusSpec, DiskSpec
from talos.disks.raid.early import start_system_array
from talos.disks.raid.start import ArrayStarter
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

from .heads import SYSTEM, make_head
from .memory_mdadm import MemoryMdadm, find_member, make_members


@asynccontextmanager
async def discovering(memory: MemoryMdadm, *names: str) -> AsyncGenerator[MemoryState]:
    """What udevd writes, again after each request: the array's partitions as soon as it runs."""
    state = MemoryState()
    for volume in memory.discover(*names):
        await put(state, kinds.DISCOVERED_VOLUME, volume.id, volume.spec)
        await put(state, kinds.DISK, volume.id, DiskSpec(dev_path=f"/dev/{volume.id}"))

    async def discover() -> None:
        async with state.watch(*ids.DISCOVERY_REFRESH_REQUEST) as events:
            async for batch in events:
                written = batch[-1].resource
                if memory.arrays:
                    array = DiskSpec(dev_path="/dev/md0", secondary_disks=names)
                    await put(state, kinds.DISK, "md0", array)
                    meta = DiscoveredVolumeSpec(
                        partition_label="META", name="talosmeta", parent="md0", parent_dev_path="/dev/md0"
                    )
                    await put(state, kinds.DISCOVERED_VOLUME, "md0p4", meta)
                request = written.spec.request if written else 0
                status = DiscoveryRefreshStatusSpec(request=request)
                await put(state, *ids.DISCOVERY_REFRESH_STATUS, status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(discover)
        yield state
        nursery.cancel_scope.cancel()


async def start(memory: MemoryMdadm, *names: str) -> None:
    async with discovering(memory, *names) as state:
        starter = ArrayStarter(memory.mdadm, memory.read_arrays, Log(write=lambda _: None))
        await start_system_array(state, starter, memory.read_head)


async def test_an_array_without_a_system_is_left_alone(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vda", "vdb")
    await start(memory, "vda", "vdb")
    assert not memory.calls


async def test_a_whole_one_is_started_at_once(autojump_clock: MockClock) -> None:
    memory = make_members("vda", "vdb")
    memory.heads["/dev/vda"] = make_head(*SYSTEM)
    began = autojump_clock.current_time()
    await start(memory, "vda", "vdb")
    assert memory.calls == ["--assemble /dev/md0 /dev/vda /dev/vdb"]
    assert autojump_clock.current_time() - began < 5


async def test_one_without_a_half_is_waited_for(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vda")
    memory.heads["/dev/vda"] = make_head(*SYSTEM)
    await start(memory, "vda")
    assert memory.calls == ["--assemble /dev/md0 /dev/vda", "--assemble /dev/md0 --run /dev/vda"]


async def test_one_that_does_not_start_ends_the_wait(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vda")
    memory.heads["/dev/vda"] = make_head(*SYSTEM)
    memory.failing["--assemble"] = "no superblock"
    await start(memory, "vda")
    assert len(memory.calls) == 2


async def test_a_member_that_comes_and_goes_is_waited_for_no_longer(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vda", "vdb")
    memory.failing["--assemble"] = "no superblock"
    starter = ArrayStarter(memory.mdadm, memory.read_arrays, Log(write=lambda _: None))
    one, other = find_member("vda"), find_member("vdb")
    await starter.start([one])
    await trio.sleep(starter.time_left)
    await starter.start([one])  # given up
    assert starter.time_left == math.inf
    await starter.start([one, other])
    assert 0 < starter.time_left < math.inf
    await starter.start([one])
    assert starter.time_left == math.inf
