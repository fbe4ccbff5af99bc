"""Arrays are started, made and shown; a machine that has nothing of RAID never starts mdadm."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import trio
from tests.unit.disks.lvm.memory_lvm import make_disk, make_machine
from tests.unit.disks.raid.heads import SYSTEM, make_head
from tests.unit.disks.raid.memory_mdadm import (
    FAULTY,
    UUID,
    MemoryMdadm,
    make_array,
    make_document,
    make_member,
    make_members,
)
from tests.unit.machined.controllers.running import running
from trio.testing import MockClock

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import storage_pb2
from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.api.definitions.runtime_pb2 import DevicesStatusSpec
from talos.disks.raid.start import MISSING_DISK_TIMEOUT
from talos.machined.controllers.storage.raid import POLL_INTERVAL, RETRY, RAIDController
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

BASE = "version: v1alpha1\nmachine:\n  type: worker\n"
INSTALL = """apiVersion: v1alpha1
kind: UnattendedInstallConfig
provisioning: {diskSelector: {match: '"/dev/disk/by-id/md-name-talos:data" in disk.symlinks'}}
"""
DISKS = ("vdb", "vdc", "vdd")
READY, WAITING = enums.MD_ARRAY_PHASE_READY, enums.MD_ARRAY_PHASE_WAITING


@dataclass
class World:
    memory: MemoryMdadm = field(default_factory=MemoryMdadm)
    state: MemoryState = field(default_factory=MemoryState)
    lines: list[str] = field(default_factory=list[str])
    has_meta: bool = True
    refreshed: int = 0
    disks: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """What udevd does."""
        self.refreshed += 1
        await self.discover(*self.disks)

    async def discover(self, *disks: str) -> None:
        self.disks = disks
        for volume in self.memory.discover(*disks):
            await put(self.state, kinds.DISCOVERED_VOLUME, volume.id, volume.spec)

    @asynccontextmanager
    async def run(self, *disks: str, documents: str = "", install: str = "") -> AsyncGenerator[None]:
        volumes, found = make_machine(*(make_disk(name) for name in disks))
        for volume in volumes:
            is_meta = volume.spec.partition_label == "META"
            if volume.id not in disks and (self.has_meta or not is_meta):
                await put(self.state, kinds.DISCOVERED_VOLUME, volume.id, volume.spec)
        await self.discover(*disks)
        for name, spec in found.items():
            await put(self.state, kinds.DISK, name, spec)
        config = "---\n".join(filter(None, (BASE + install, documents))).encode()
        await publish_config(self.state, ids.MACHINE_CONFIG, config)
        memory, log = self.memory, Log(write=self.lines.append)
        controller = RAIDController(memory.mdadm, memory.read_arrays, memory.reader, self.refresh, log)
        async with running(self.state, controller):
            await trio.sleep(1)
            assert not memory.calls, "not before all devices are known"
            await put(self.state, *ids.DEVICES_STATUS, DevicesStatusSpec(ready=True))
            yield

    async def wait(self, id: str = "data", phase: int = READY) -> storage_pb2.MDArrayStatusSpec:
        found = await wait_for(
            self.state, kinds.MD_ARRAY_STATUS, id, lambda status: status.spec.status == phase
        )
        return found.spec


async def test_a_machine_without_arrays_never_starts_mdadm(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World()
    async with world.run("vdb"):
        await trio.sleep(10 * RETRY)
    assert not world.memory.calls
    assert not await world.state.list(kinds.MD_ARRAY_STATUS)


async def test_from_the_config_to_the_status(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World()
    async with world.run("vdb", "vdc", documents=make_document()):
        await wait_for(
            world.state, kinds.MD_ARRAY_STATUS, "data", lambda status: status.spec.name == "talos:data"
        )
        status = await world.wait()
        assert status.device == "/dev/disk/by-id/md-name-talos:data"
        assert list(status.members) == ["/dev/vdb", "/dev/vdc"]
        spec = (await world.state.get(kinds.MD_ARRAY_SPEC, "data")).spec
        assert (spec.level, spec.metadata) == (enums.MD_LEVEL_RAID1, enums.MD_METADATA10)
        assert world.refreshed == 1
        assert not await world.state.list(kinds.DIAGNOSTIC)
        count = len(world.memory.calls)
        await trio.sleep(10 * RETRY)
        assert len(world.memory.calls) == count, "at rest it only looks"


async def test_a_member_that_fails_is_shown_and_a_new_disk_replaces_it(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vdb", "vdc")
    memory.arrays.append(make_array(make_member("vdb"), make_member("vdc", 1)))
    world = World(memory)
    async with world.run("vdb", "vdc", documents=make_document()):
        await world.wait()
        memory.arrays[0] = make_array(make_member("vdb"), make_member("vdc", 1, FAULTY))
        found = await wait_for(world.state, kinds.DIAGNOSTIC, "raid-data", lambda _: True)
        assert found.spec.message == "RAID array data needs attention"
        assert "1 of 2 members are missing, /dev/vdc failed" in found.spec.details[0]
        assert (await world.wait()).raid_devices == 2
        assert not memory.calls
        await put(world.state, kinds.DISK, "vdd", make_disk("vdd")[1])
        await world.discover(*DISKS)
        await world.wait(phase=enums.MD_ARRAY_PHASE_REBUILDING)
        assert memory.calls[-1] == "--manage /dev/md0 --add /dev/vdd"
        assert not await world.state.list(kinds.DIAGNOSTIC)
        memory.finish_sync()
        status = await world.wait()
        assert list(status.members) == ["/dev/vdb", "/dev/vdd"]
        assert status.error.startswith("/dev/vdc was a member of this array, which is complete without it")
    assert any("1 of 2 members are missing" in line for line in world.lines)


async def test_what_is_there_is_started_once(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(make_members("vdb", "vdc"))
    async with world.run("vdb", "vdc"):
        assert (await world.wait()).raid_devices == 2
        assert world.memory.calls == ["--assemble /dev/md0 /dev/vdb /dev/vdc"]
        assert not world.refreshed, "the kernel announces it"
        world.memory.arrays.clear()
        await put(world.state, *ids.MD_REFRESH_REQUEST, storage_pb2.MDRefreshRequestSpec(request=1))
        await world.wait(phase=WAITING)
        await trio.sleep(10 * RETRY)
        assert len(world.memory.calls) == 1, "the API stopped it"


async def test_nothing_is_started_before_the_machine_is_installed(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(make_members("vdb", "vdc"), has_meta=False)
    async with world.run("vdb", "vdc", documents=make_document()):
        assert (await world.wait(phase=WAITING)).error == "waiting for the installation of this machine"
        await trio.sleep(10 * RETRY)
        assert not world.memory.calls
        meta = DiscoveredVolumeSpec(partition_label="META", name="talosmeta", parent="vda")
        await put(world.state, kinds.DISCOVERED_VOLUME, "vda2", meta)
        await world.wait()


async def test_the_array_with_the_system_is_started_before_anything_else(
    autojump_clock: MockClock,
) -> None:
    del autojump_clock
    memory = make_members("vdb", "vdc")
    memory.heads["/dev/vdc"] = make_head(*SYSTEM)
    world = World(memory, has_meta=False)
    async with world.run("vdb", "vdc"):
        assert (await world.wait()).raid_devices == 2
    assert memory.calls[0] == "--assemble /dev/md0 /dev/vdb /dev/vdc"


async def test_without_a_half_the_system_is_started_from_the_other(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vdc")
    memory.heads["/dev/vdc"] = make_head(*SYSTEM)
    world = World(memory, has_meta=False)
    async with world.run("vdc"):
        await world.wait(phase=WAITING)
        await trio.sleep(MISSING_DISK_TIMEOUT / 2)
        assert memory.calls == ["--assemble /dev/md0 /dev/vdc"]
        assert (await world.wait()).error.startswith("1 of 2 members are missing")
        assert await world.state.list(kinds.DIAGNOSTIC)
    assert memory.calls[1] == "--assemble /dev/md0 --run /dev/vdc"


async def test_another_system_than_the_machines_is_not_started(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vdb", "vdc")
    memory.heads["/dev/vdb"] = make_head(*SYSTEM)
    world = World(memory)
    async with world.run("vdb", "vdc"):
        status = await world.wait(phase=enums.MD_ARRAY_PHASE_ERROR)
        assert status.error == (
            "/dev/vdb holds another system than this machine's: its array is not started "
            "(if it may be lost: talosctl wipe disk vdb)"
        )
        assert await world.state.list(kinds.DIAGNOSTIC)
    assert not memory.calls


async def test_before_an_installation_only_its_array_is_made(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(has_meta=False)
    documents = "---\n".join(
        (
            make_document("data2", 'disk.serial == "vdd"'),
            make_document(match='disk.serial in ["vdb", "vdc"]'),
            INSTALL,
        )
    )
    async with world.run(*DISKS, documents=documents):
        assert list((await world.wait()).members) == ["/dev/vdb", "/dev/vdc"]
        status = await world.wait("data2", WAITING)
        assert status.error == "waiting for the installation of this machine"


async def test_an_installation_that_was_cut_short_has_its_array_again(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(make_members("vdb", "vdc"), has_meta=False)
    install = "  install: {disk: '/dev/disk/by-id/md-name-talos:data'}\n"
    async with world.run("vdb", "vdc", documents=make_document(), install=install):
        await world.wait()
    assert world.memory.calls[0] == "--assemble /dev/md0 /dev/vdb /dev/vdc"


async def test_one_that_lacks_a_member_is_waited_for_and_then_used(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(make_members("vdb"))
    async with world.run("vdb", documents=make_document()):
        await world.wait(phase=WAITING)
        await trio.sleep(MISSING_DISK_TIMEOUT / 2)
        assert world.memory.calls == ["--assemble /dev/md0 /dev/vdb"]
        status = await world.wait()
        assert world.memory.calls[1:] == ["--assemble /dev/md0 --run /dev/vdb"]
        assert status.error.startswith("1 of 2 members are missing")
        assert await world.state.list(kinds.DIAGNOSTIC)


async def test_no_change_postpones_the_start_without_a_member(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(make_members("vdb"))
    async with world.run("vdb", documents=make_document()):
        await world.wait(phase=WAITING)
        for name in ("vdx", "vdy", "vdz"):
            await trio.sleep(MISSING_DISK_TIMEOUT / 4)
            await put(world.state, kinds.DISK, name, make_disk(name)[1])
        assert len(world.memory.calls) == 1
        await trio.sleep(MISSING_DISK_TIMEOUT / 3)
        assert world.memory.calls[1:] == ["--assemble /dev/md0 --run /dev/vdb"]


async def test_one_whose_member_is_late_is_started_whole(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(make_members("vdb", "vdc"))
    async with world.run("vdb", documents=make_document()):
        await world.wait(phase=WAITING)
        await world.discover("vdb", "vdc")
        assert (await world.wait()).error == ""
    assert world.memory.calls[-1] == "--assemble /dev/md0 /dev/vdb /dev/vdc"


async def test_what_fails_is_shown_and_tried_again(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(MemoryMdadm(failing={"--create": "cannot open /dev/vdb: Device or resource busy"}))
    async with world.run("vdb", "vdc", documents=make_document()):
        status = await world.wait(phase=enums.MD_ARRAY_PHASE_ERROR)
        assert "mdadm --create ended with 1: cannot open /dev/vdb" in status.error
        assert await world.state.list(kinds.DIAGNOSTIC)
        await trio.sleep(RETRY / 2)
        assert len(world.memory.calls) == 1
        world.memory.failing.clear()
        await world.wait()
        assert not await world.state.list(kinds.DIAGNOSTIC)
    assert sum("Device or resource busy" in line for line in world.lines) == 1


async def test_an_array_that_can_not_be_started_is_shown_below_its_document(
    autojump_clock: MockClock,
) -> None:
    del autojump_clock
    memory = make_members("vdb")
    memory.failing["--assemble"] = "no superblock on /dev/vdb"
    world = World(memory)
    async with world.run("vdb", documents=make_document()):
        await trio.sleep(3 * POLL_INTERVAL)
        found = await wait_for(world.state, kinds.DIAGNOSTIC, "raid-data", lambda _: True)
        assert "mdadm --assemble ended with 1: no superblock on /dev/vdb" in found.spec.details[0]
    assert len(memory.calls) == 2


async def test_arrays_without_a_document_are_shown(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = make_members("vdb", "vdc")
    memory.arrays.append(replace(make_array(make_member("vdb"), make_member("vdc", 1)), uuid=UUID))
    world = World(memory)
    async with world.run("vdb", "vdc"):
        assert (await world.wait()).device == "/dev/disk/by-id/md-name-talos:data"
        assert not await world.state.list(kinds.MD_ARRAY_SPEC)
