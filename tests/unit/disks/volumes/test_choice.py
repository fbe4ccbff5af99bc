"""Which disks a volume may be on."""

from dataclasses import replace

import pytest

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.disk import Disk, make_disk
from talos.disks.volumes.choice import choose_device, choose_disks
from talos.system.errors import UserError

ARRAY, SYSTEM = "/dev/md0", "/dev/vda"
LINK = "/dev/disk/by-id/md-name-talos:mirror"


def make_disks() -> list[Disk]:
    """The system's, a member of an array, and the array."""
    found = [
        block_pb2.DiscoveredVolumeSpec(dev_path="/dev/vdb", name="linux_raid_member"),
        block_pb2.DiscoveredVolumeSpec(dev_path=ARRAY),
    ]
    volumes = [(spec.dev_path.removeprefix("/dev/"), spec) for spec in found]
    half = make_disk("vdb", block_pb2.DiskSpec(dev_path="/dev/vdb"), volumes)
    array = make_disk("md0", block_pb2.DiskSpec(dev_path=ARRAY, symlinks=[LINK]), volumes)
    return [
        make_disk("vda", block_pb2.DiskSpec(dev_path=SYSTEM), volumes, is_system=True),
        replace(half, array=ARRAY),
        replace(array, boot_obstacle="is a RAID array of partitions"),
    ]


@pytest.mark.parametrize("kind", [enums.VOLUME_TYPE_PARTITION, enums.VOLUME_TYPE_DISK])
def test_an_array_is_a_disk_for_volumes(kind: enums.BlockVolumeType) -> None:
    spec = block_pb2.VolumeConfigSpec(type=kind)
    selector = f'"{LINK}" in disk.symlinks'
    assert choose_disks(make_disks(), spec, selector, SYSTEM, "here") == [ARRAY]
    assert choose_device(make_disks(), ARRAY, SYSTEM, "here") == [ARRAY]


def test_a_half_of_an_array_has_no_volume() -> None:
    spec = block_pb2.VolumeConfigSpec(type=enums.VOLUME_TYPE_DISK)
    with pytest.raises(UserError, match="no disk matches"):
        choose_disks(make_disks(), spec, 'disk.dev_path == "/dev/vdb"', SYSTEM, "here")
    with pytest.raises(UserError, match="/dev/vdb is no disk that can be used"):
        choose_device(make_disks(), "/dev/vdb", SYSTEM, "here")


def test_the_system_disk_is_named_by_none() -> None:
    with pytest.raises(UserError, match="/dev/vda is the system disk"):
        choose_device(make_disks(), SYSTEM, SYSTEM, "here")
