"""Nothing is erased, installed or started from a medium before all disks are known."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from tests.unit.udevd.fake_sysfs import FakeSysfs
from trio.testing import MockClock

from talos.api.definitions import block_pb2, runtime_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.boot.phases.disks import find_system_disk
from talos.machined.boot.phases.install import make_install
from talos.machined.boot.phases.known_disks import wait_until_known
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

CONFIG = b"version: v1alpha1\nmachine: {type: worker, install: {disk: /dev/sda, wipe: true}}\n"


@dataclass
class SlowMachine:
    """A machine with two disks, of which udevd has read none yet."""

    folder: Path
    state: MemoryState = field(default_factory=MemoryState)
    lines: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.fake = FakeSysfs(self.folder)
        disk = self.fake.disk("/devices/pci0/ata1/block/sda", 0)
        self.fake.disk("/devices/pci0/ata2/block/sdb", 16)
        self.fake.partition(disk, 1, 1)
        self.fake.add("/devices/virtual/block/loop0", "block")

    @property
    def machine(self) -> Any:
        power = SimpleNamespace(stop_phases=SimpleNamespace(make=lambda: ()))
        return SimpleNamespace(state=self.state, log=self.log, power=power)

    @property
    def log(self) -> Log:
        return Log(write=self.lines.append)

    async def read_disk(self, name: str) -> None:
        await put(self.state, kinds.DISK, name, block_pb2.DiskSpec(dev_path=f"/dev/{name}"))

    async def read_meta(self) -> None:
        """A system on sdb."""
        meta = block_pb2.DiscoveredVolumeSpec(
            name="talosmeta", partition_label="META", parent="sdb", parent_dev_path="/dev/sdb"
        )
        await put(self.state, kinds.DISCOVERED_VOLUME, "sdb4", meta)
        status = block_pb2.VolumeStatusSpec(phase=enums.VOLUME_PHASE_READY, location="/dev/sdb4")
        await put(self.state, kinds.VOLUME_STATUS, "META", status)

    async def end(self) -> None:
        """All is read."""
        await put(self.state, *ids.DEVICES_STATUS, runtime_pb2.DevicesStatusSpec(ready=True))

    async def end_meta(self) -> None:
        """Whether there is a META is known."""
        await put(self.state, *ids.META_LOAD, runtime_pb2.MetaLoadedSpec(done=True))


@pytest.fixture
def slow(tmp_path: Path) -> SlowMachine:
    return SlowMachine(tmp_path)


@asynccontextmanager
async def waiting(slow: SlowMachine, held_up: str) -> AsyncGenerator[trio.Nursery]:
    """What is started in the nursery has to wait for an hour in which only sda is read; then all is."""
    async with trio.open_nursery() as nursery:
        yield nursery
        await trio.sleep(100)
        await slow.read_disk("sda")
        await trio.sleep(3600)
        assert held_up in slow.lines[0]
        assert "sda, sdb" in slow.lines[0]
        assert len(slow.lines) > 100
        assert '"waiting_for":"sdb"' in slow.lines[-1]
        assert nursery.child_tasks
        await slow.read_disk("sdb")
        await slow.end()


async def test_disks_that_are_not_read_are_waited_for(slow: SlowMachine, autojump_clock: MockClock) -> None:
    async def wait() -> None:
        await wait_until_known(slow.state, slow.log, slow.fake.sysfs, held_up="nothing is erased")

    async with waiting(slow, "nothing is erased") as nursery:
        nursery.start_soon(wait)


@pytest.mark.parametrize(("has_system", "names"), [(True, []), (False, ["install", "saveConfig"])])
async def test_nothing_is_installed_before_all_disks_are_read(
    slow: SlowMachine, has_system: bool, names: list[str], autojump_clock: MockClock
) -> None:
    """Its system may be on one of those that are not, and install.wipe is for what is none."""
    phases = list[str]()
    await put(slow.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=CONFIG))

    async def plan() -> None:
        phases.extend(phase.name for phase in await make_install(slow.machine, slow.fake.sysfs))

    async with waiting(slow, "nothing is installed") as nursery:
        nursery.start_soon(plan)
        nursery.start_soon(end_meta, slow, has_system)
    assert phases[:2] == names


async def end_meta(slow: SlowMachine, has_system: bool) -> None:
    """META is known an hour after the disks, as on an array that lacks a member."""
    await wait_until_known(slow.state, Log(), slow.fake.sysfs, held_up="")
    await trio.sleep(3600)
    assert "until it is known whether the system is installed" in slow.lines[-1]
    assert "volume META: it has not been located yet" in slow.lines[-1]
    if has_system:
        await slow.read_meta()
    await slow.end_meta()


@pytest.mark.parametrize("has_system", [True, False])
async def test_the_boot_of_a_medium_goes_on_when_all_disks_are_read(
    slow: SlowMachine, has_system: bool, autojump_clock: MockClock
) -> None:
    found = list[str]()

    async def find() -> None:
        disk = await find_system_disk(slow.machine, slow.fake.sysfs)
        found.extend([disk.id] if disk else ["none"])

    async with waiting(slow, "the boot does not go on") as nursery:
        nursery.start_soon(find)
        nursery.start_soon(end_meta, slow, has_system)
    assert found == (["sdb"] if has_system else ["none"])
