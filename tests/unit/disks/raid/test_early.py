"""Arrays are started before the controllers run, for what a kernel argument erases."""

import math

import pytest
import trio
from trio.testing import MockClock

from talos.disks.disk import read_disks
from talos.disks.raid.start import ArrayStarter
from talos.system.logging import Log

from .discovery import Discovery
from .heads import SYSTEM, make_head
from .memory_mdadm import MemoryMdadm, find_member, make_members


async def start(memory: MemoryMdadm, *names: str) -> None:
    discovery = Discovery(memory, names, "META")
    async with discovery.run():
        await discovery.arrays.start_system()


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


async def start_others(memory: MemoryMdadm, *names: str) -> None:
    discovery = Discovery(memory, names, "ETCD")
    async with discovery.run():
        await discovery.add_part("vdz", "META")
        await discovery.arrays.start_others()
        disks = await read_disks(discovery.state)
    assert [part.label for disk in disks if disk.is_array for part in disk.contents] == ["ETCD"]


async def test_others_are_started_where_the_system_is_installed(autojump_clock: MockClock) -> None:
    memory = make_members("vda", "vdb")
    began = autojump_clock.current_time()
    await start_others(memory, "vda", "vdb")
    assert memory.calls == ["--assemble /dev/md0 /dev/vda /dev/vdb"]
    assert autojump_clock.current_time() - began < 5


async def test_others_without_a_half_are_waited_for(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vda")
    await start_others(memory, "vda")
    assert memory.calls == ["--assemble /dev/md0 /dev/vda", "--assemble /dev/md0 --run /dev/vda"]


@pytest.mark.parametrize(("is_installed", "head"), [(False, bytes(4096)), (True, make_head(*SYSTEM))])
async def test_no_other_is_started_for_another_system_or_in_its_way(
    is_installed: bool, head: bytes, autojump_clock: MockClock
) -> None:
    del autojump_clock
    memory = make_members("vda", "vdb")
    memory.heads["/dev/vda"] = head
    discovery = Discovery(memory, ("vda", "vdb"), "ETCD")
    async with discovery.run():
        if is_installed:
            await discovery.add_part("vdz", "META")
        await discovery.arrays.start_others()
    assert not memory.calls


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
