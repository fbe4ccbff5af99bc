"""Which disks a volume may be on."""

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
    return [
        make_disk("vda", block_pb2.DiskSpec(dev_path=SYSTEM), volumes, is_system=True),
        make_disk("vdb", block_pb2.DiskSpec(dev_path="/dev/vdb"), volumes),
        make_disk("md0", block_pb2.DiskSpec(dev_path=ARRAY, symlinks=[LINK]), volumes),
    ]


@pytest.mark.parametrize("kind", [enums.VOLUME_TYPE_PARTITION, enums.VOLUME_TYPE_DISK])
def test_an_array_is_a_disk_for_volumes(kind: enums.BlockVolumeType) -> None:
    spec = block_pb2.VolumeConfigSpec(type=kind)
    selector = f'"{LINK}" in disk.symlinks'
    assert choose_disks(make_disks(), spec, selector, SYSTEM, "here") == [ARRAY]
    assert choose_device(make_disks(), ARRAY, SYSTEM, "here") == [ARRAY]


def test_no_system_is_installed_on_an_array() -> None:
    array = next(disk for disk in make_disks() if disk.path == ARRAY)
    assert array.obstacle == "is a RAID array"


def test_the_system_disk_is_named_by_none() -> None:
    with pytest.raises(UserError, match="/dev/vda is the system disk"):
        choose_device(make_disks(), SYSTEM, SYSTEM, "here")
