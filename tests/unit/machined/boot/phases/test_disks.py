"""What a kernel argument erases: once all disks are known, on arrays that do not run yet, too."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from tests.unit.disks.raid.discovery import Discovery
from tests.unit.disks.raid.memory_mdadm import make_members
from tests.unit.udevd.fake_sysfs import FakeSysfs
from trio.testing import MockClock

from talos.api.definitions.block_pb2 import DiskSpec
from talos.api.definitions.runtime_pb2 import DevicesStatusSpec
from talos.machined.boot.phases.disks import find_erasures, wait_until_known
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log


@pytest.mark.parametrize(
    ("labels", "found", "problems", "is_started"),
    [
        (["ETCD"], {"md0": ["ETCD"]}, [], True),
        (["META", "ETCD"], {"vdz": ["META"], "md0": ["ETCD"]}, [], True),
        (["ETCD", "LOG"], {"md0": ["ETCD"]}, ["there is no partition LOG to erase"], True),
        (["META"], {"vdz": ["META"]}, [], False),
        ([], {"vdz": []}, [], False),
    ],
)
async def test_a_partition_on_an_array_is_found(
    labels: Sequence[str],
    found: dict[str, Sequence[str]],
    problems: Sequence[str],
    is_started: bool,
    autojump_clock: MockClock,
) -> None:
    del autojump_clock
    memory = make_members("vda", "vdb")
    discovery = Discovery(memory, ("vda", "vdb"), "ETCD")
    async with discovery.run():
        await discovery.add_disk("vdz")
        await discovery.add_part("vdz", "META")
        erasures, lines = await find_erasures(discovery.state, discovery.arrays, labels)
    assert {one.disk.id: [part.label for part in one.parts] for one in erasures} == found
    assert lines == problems
    assert bool(memory.arrays) is is_started, "an array that is not needed is left alone"


async def test_disks_that_are_not_read_are_waited_for(tmp_path: Path, autojump_clock: MockClock) -> None:
    del autojump_clock
    fake, state, lines = FakeSysfs(tmp_path), MemoryState(), list[str]()
    disk = fake.disk("/devices/pci0/ata1/block/sda", 0)
    fake.disk("/devices/pci0/ata2/block/sdb", 16)
    fake.partition(disk, 1, 1)
    fake.add("/devices/virtual/block/loop0", "block")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_until_known, state, Log(write=lines.append), fake.sysfs)
        await trio.sleep(100)
        await put(state, kinds.DISK, "sda", DiskSpec())
        await trio.sleep(3600)
        assert "nothing is erased" in lines[0]
        assert "sda, sdb" in lines[0]
        assert len(lines) > 100
        assert '"waiting_for":"sdb"' in lines[-1]
        await put(state, *ids.DEVICES_STATUS, DevicesStatusSpec(ready=True))
