"""Groups are activated, made and shown; a machine that has nothing of LVM never starts it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from tests.unit.disks.lvm.memory_lvm import (
    Logical,
    MemoryLvm,
    make_disk,
    make_group,
    make_machine,
    make_volume,
)
from tests.unit.machined.controllers.running import running
from trio.testing import MockClock

from talos.api.definitions import storage_pb2
from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.api.definitions.runtime_pb2 import DevicesStatusSpec
from talos.machined.controllers.storage.lvm import MISSING_DISK_TIMEOUT, RETRY, LVMController
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

BASE = "version: v1alpha1\nmachine: {type: worker}\n"


@dataclass
class World:
    memory: MemoryLvm = field(default_factory=MemoryLvm)
    state: MemoryState = field(default_factory=MemoryState)
    lines: list[str] = field(default_factory=list[str])
    has_meta: bool = True
    refreshed: int = 0

    @asynccontextmanager
    async def run(self, *disks: str, content: str = "", documents: str = "") -> AsyncGenerator[None]:
        async def refresh() -> None:
            await trio.lowlevel.checkpoint()
            self.refreshed += 1

        async def read_head(device: str) -> bytes:
            await trio.lowlevel.checkpoint()
            assert device.startswith("/dev/")
            return bytes(4096)

        volumes, found = make_machine(*(make_disk(name, content) for name in disks))
        for volume in volumes:
            if volume.spec.partition_label == "META" and not self.has_meta:
                continue
            await put(self.state, kinds.DISCOVERED_VOLUME, volume.id, volume.spec)
        for name, spec in found.items():
            await put(self.state, kinds.DISK, name, spec)
        await publish_config(
            self.state, ids.MACHINE_CONFIG, "---\n".join(filter(None, (BASE, documents))).encode()
        )
        log = Log(write=self.lines.append)
        async with running(self.state, LVMController(self.memory.lvm, read_head, refresh, log)):
            await trio.sleep(1)
            assert not self.memory.calls, "not before all devices are known"
            await put(self.state, *ids.DEVICES_STATUS, DevicesStatusSpec(ready=True))
            yield


async def test_a_machine_without_lvm_never_starts_it(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World()
    async with world.run("vdb", content="xfs"):
        await trio.sleep(10 * RETRY)
    assert not world.memory.calls


async def test_from_the_config_to_the_status(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World()
    documents = make_group() + "---\n" + make_volume()
    async with world.run("vdb", "vdc", documents=documents):
        found = await wait_for(world.state, kinds.LVM_LOGICAL_VOLUME_STATUS, "pool-data", lambda _: True)
        assert (found.spec.path, found.spec.pretty_size) == ("/dev/pool/data", "105 MB")
        group = await world.state.get(kinds.LVM_VOLUME_GROUP_STATUS, "pool")
        assert (group.spec.pv_count, group.spec.lv_count) == ("2", "1")
        physical = await world.state.list(kinds.LVM_PHYSICAL_VOLUME_STATUS)
        assert [one.id for one in physical] == ["vdb", "vdc"]
        specs = await world.state.get(kinds.LVM_VOLUME_GROUP_SPEC, "pool")
        assert list(specs.spec.physical_volumes) == ["/dev/vdb", "/dev/vdc"]
        assert (await world.state.get(kinds.LVM_PHYSICAL_VOLUME_SPEC, "vdb")).spec.vg_name == "pool"
        assert (
            await world.state.get(kinds.LVM_LOGICAL_VOLUME_SPEC, "pool-data")
        ).spec.size_bytes == 100 << 20
        assert world.refreshed == 1
        count = len(world.memory.calls)
        await trio.sleep(10 * RETRY)
        assert len(world.memory.calls) == count, "at rest it does nothing"
        assert not any("vgchange" in change for change in world.memory.changes)
        world.memory.logical.clear()
        await put(world.state, *ids.LVM_REFRESH_REQUEST, storage_pb2.LVMRefreshRequestSpec(request=1))
        await trio.sleep(1)
        assert world.memory.logical, "the config still has it"


async def test_what_is_there_is_activated_once(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = MemoryLvm(physical={"/dev/vdb": "old"}, logical=[Logical(group="old", name="a", size=1 << 22)])
    world = World(memory)
    async with world.run("vdb", content="LVM2_member"):
        await wait_for(world.state, kinds.LVM_LOGICAL_VOLUME_STATUS, "old-a", lambda _: True)
        await put(world.state, *ids.LVM_REFRESH_REQUEST, storage_pb2.LVMRefreshRequestSpec(request=1))
        await trio.sleep(10 * RETRY)
    assert memory.changes == ["vgchange -aay old"]


async def test_nothing_is_activated_before_the_machine_is_installed(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = MemoryLvm(physical={"/dev/vdb": "old"}, logical=[Logical(group="old", name="a", size=1 << 22)])
    world = World(memory, has_meta=False)
    async with world.run("vdb", content="LVM2_member", documents=make_volume(group="old")):
        await wait_for(world.state, kinds.LVM_LOGICAL_VOLUME_STATUS, "old-a", lambda _: True)
        await trio.sleep(10 * RETRY)
        assert memory.changes == []
        spec = DiscoveredVolumeSpec(partition_label="META", name="talosmeta", parent="vda")
        await put(world.state, kinds.DISCOVERED_VOLUME, "vda2", spec)
        await trio.sleep(1)
    assert memory.changes[0] == "vgchange -aay old"


async def test_a_group_that_lacks_a_disk_is_waited_for_and_then_used(autojump_clock: MockClock) -> None:
    del autojump_clock
    memory = MemoryLvm(
        physical={"/dev/vdb": "old"}, logical=[Logical(group="old", name="a")], missing={"old": 1}
    )
    world = World(memory)
    async with world.run("vdb", content="LVM2_member"):
        found = await wait_for(world.state, kinds.LVM_VALIDATION_ERROR, "old", lambda _: True)
        assert "lacks 1 of its physical volumes" in found.spec.message
        await trio.sleep(MISSING_DISK_TIMEOUT / 2)
        assert memory.changes == []
        await trio.sleep(MISSING_DISK_TIMEOUT)
        assert memory.changes == ["vgchange -aay old"]
        memory.missing.clear()
        await put(world.state, *ids.LVM_REFRESH_REQUEST, storage_pb2.LVMRefreshRequestSpec(request=1))
        await trio.sleep(1)
        assert memory.changes == ["vgchange -aay old"] * 2, "what could not be activated without it"
        assert not await world.state.list(kinds.LVM_VALIDATION_ERROR)


async def test_what_fails_is_shown_and_tried_again(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(MemoryLvm(failing={"vgcreate": "/dev/pool: already exists in filesystem"}))
    async with world.run("vdb", documents=make_group() + "---\n" + make_volume(group="other")):
        found = await wait_for(world.state, kinds.LVM_VALIDATION_ERROR, "pool", lambda _: True)
        assert found.spec.message.endswith("/dev/pool: already exists in filesystem")
        other = await world.state.get(kinds.LVM_VALIDATION_ERROR, "other/data")
        assert other.spec.vg_name == "other"
        world.memory.failing.clear()
        await wait_for(world.state, kinds.LVM_VOLUME_GROUP_STATUS, "pool", lambda _: True)
        assert [error.id for error in await world.state.list(kinds.LVM_VALIDATION_ERROR)] == ["other/data"]
    assert sum("already exists" in line for line in world.lines) == 1


async def test_a_report_that_fails_is_tried_again(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = World(MemoryLvm(failing={"vgs": "out of memory"}))
    async with world.run("vdb", documents=make_group()):
        await trio.sleep(RETRY / 2)
        world.memory.failing.clear()
        await wait_for(world.state, kinds.LVM_VOLUME_GROUP_STATUS, "pool", lambda _: True)
