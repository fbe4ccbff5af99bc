"""``machine.disks``: the partitions of a disk by their numbers."""

import pytest
from tests.unit.disks.volumes.disks import DISK, MemoryBlocks

from talos.api.definitions import block_pb2
from talos.config.read.loader import load
from talos.disks.disk import Disk
from talos.disks.volumes.choice import choose_device
from talos.disks.volumes.legacy import make_legacy_disks
from talos.disks.volumes.settle import settle
from talos.disks.volumes.specs import DEVICE, NUMBER, OBSTACLE
from talos.disks.volumes.status import make_wanted_volume
from talos.disks.volumes.user import find_place, is_mounted
from talos.disks.volumes.volume import VolumeProgress
from talos.system.block.blkid import Content, Partition
from talos.system.block.layout import GIB, MIB
from talos.system.errors import UserError
from talos.system.logging import Log

LINK = "/dev/disk/by-id/wwn-1"
CONFIG = f"""\
version: v1alpha1
machine:
  type: worker
  disks:
    - device: {LINK}
      partitions:
        - {{mountpoint: /var/mnt/logs, size: 1GiB}}
        - {{mountpoint: /var/lib/data}}
"""
DISKS = (block_pb2.DiskSpec(dev_path="/dev/vdb"), block_pb2.DiskSpec(dev_path=DISK, symlinks=[LINK]))


def test_each_partition_is_a_volume_with_upstreams_id() -> None:
    found = make_legacy_disks(load(CONFIG), DISKS, has_partitions=True)
    assert list(found) == [f"{DISK}-1", f"{DISK}-2"]
    (first, one), (second, two) = found.values()
    assert (one[DEVICE], one[NUMBER], two[NUMBER]) == (DISK, "1", "2")
    assert is_mounted(first)
    assert first.mount.target_path == "/var/mnt/logs"
    sizes = [(part.min_size, part.max_size) for part in _parts(first, second)]
    assert sizes == [(GIB, GIB), (100 * MIB, 0)]
    assert first.provisioning.wave < second.provisioning.wave, "they get their numbers in order"
    assert find_place(f"{DISK}-1") == f"machine.disks {DISK}-1"


def _parts(*specs: block_pb2.VolumeConfigSpec) -> list[block_pb2.PartitionSpec]:
    return [spec.provisioning.partition_spec for spec in specs]


def test_a_container_and_a_mount_point_that_is_none_are_named() -> None:
    (volume, *_) = make_legacy_disks(load(CONFIG), DISKS, has_partitions=False).values()
    assert "a container has no disks" in volume[1][OBSTACLE]
    config = load(CONFIG.replace("/var/mnt/logs", "logs"))
    (volume, *_) = make_legacy_disks(config, DISKS, has_partitions=True).values()
    assert volume[1][OBSTACLE] == 'the mount point "logs" is no absolute path'


def test_the_system_disk_is_never_taken() -> None:
    disks = [Disk(id=spec.dev_path, spec=spec) for spec in DISKS]
    assert choose_device(disks, "/dev/vdb", DISK, "here") == ["/dev/vdb"]
    with pytest.raises(UserError, match="/dev/vda is the system disk"):
        choose_device(disks, DISK, DISK, "here")
    with pytest.raises(UserError, match="/dev/vdc is no disk that can be used"):
        choose_device(disks, "/dev/vdc", DISK, "here")


async def test_partitions_are_made_in_order_and_found_by_number() -> None:
    blocks = MemoryBlocks(whole=Content())
    specs = [spec for spec, _ in make_legacy_disks(load(CONFIG), DISKS, has_partitions=True).values()]
    wanted = [make_wanted_volume("", spec, number=number) for number, spec in enumerate(specs, 1)]
    log = Log(write=lambda _: None)
    with pytest.raises(UserError, match="would be number 1"):
        await settle(blocks, wanted[1], [DISK], log, VolumeProgress())
    for one in wanted:
        assert await settle(blocks, one, [DISK], log, VolumeProgress())
    assert [row.size for row in blocks.partitions.values()] == [GIB, 9 * GIB - 2 * MIB]
    assert blocks.partitions[2].label == f"{DISK}-2"

    # As another system has left it: without labels
    blocks.partitions = {number: _unlabelled(row) for number, row in blocks.partitions.items()}
    before = list(blocks.writes)
    place = await settle(blocks, wanted[1], [DISK], log, VolumeProgress())
    assert place
    assert place.device == f"{DISK}2"
    assert blocks.writes == before, "nothing is made anew"


def _unlabelled(row: Partition) -> Partition:
    return Partition(number=row.number, start=row.start, size=row.size)


async def test_a_number_that_was_freed_is_not_given_again() -> None:
    """A new partition gets the number behind the highest: the one that is meant would not be made."""
    blocks = MemoryBlocks()
    blocks.partitions[2] = Partition(number=2, start=MIB, size=GIB)
    (spec, _), *_ = make_legacy_disks(load(CONFIG), DISKS, has_partitions=True).values()
    wanted = make_wanted_volume("", spec, number=1)
    with pytest.raises(UserError, match="would be number 3"):
        await settle(blocks, wanted, [DISK], Log(write=lambda _: None), VolumeProgress())
    assert not blocks.writes
