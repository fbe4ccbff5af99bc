"""Which disks a volume may be on."""

from dataclasses import replace

import pytest

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.disk import LOGICAL, Disk, make_disk
from talos.disks.volumes.choice import choose_device, choose_disks, find_devices
from talos.disks.volumes.specs import DEVICE, SELECTOR, USER_WAVE
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


PARTITION, WHOLE = enums.VOLUME_TYPE_PARTITION, enums.VOLUME_TYPE_DISK
ANY = "disk.size >= 0u"


def make_machine() -> list[Disk]:
    """The system's disk, one with a volume of a user, an empty one, a logical volume, an optical drive."""
    volumes = [
        ("vdc1", block_pb2.DiscoveredVolumeSpec(name="xfs", partition_label="u-db", parent="vdc")),
    ]
    specs = (
        block_pb2.DiskSpec(dev_path="/dev/vdc"),
        block_pb2.DiskSpec(dev_path="/dev/vdb"),
        block_pb2.DiskSpec(dev_path=SYSTEM),
        block_pb2.DiskSpec(dev_path="/dev/dm-0", symlinks=[f"{LOGICAL}a"]),
        block_pb2.DiskSpec(dev_path="/dev/sr0", cdrom=True),
    )
    return [make_disk(spec.dev_path.removeprefix("/dev/"), spec, volumes) for spec in specs]


@pytest.mark.parametrize(
    ("type", "user", "label", "selector", "devices"),
    [
        (PARTITION, True, "u-new", "", [SYSTEM]),
        (PARTITION, True, "u-new", ANY, [SYSTEM, "/dev/vdb", "/dev/vdc"]),
        (PARTITION, True, "u-new", "!system_disk", ["/dev/vdb", "/dev/vdc"]),
        (PARTITION, True, "u-db", "", ["/dev/vdc"]),
        (PARTITION, True, "u-db", "system_disk", ["/dev/vdc"]),
        (PARTITION, False, "u-db", "system_disk", [SYSTEM]),
        (WHOLE, True, "u-db", ANY, ["/dev/dm-0", "/dev/vdb", "/dev/vdc"]),
        (WHOLE, True, "u-db", 'disk.dev_path == "/dev/dm-0"', ["/dev/dm-0"]),
    ],
)
def test_a_volume_stays_where_it_is_and_begins_on_disks_that_are_selected(
    type: enums.BlockVolumeType, label: str, selector: str, devices: list[str], *, user: bool
) -> None:
    spec = block_pb2.VolumeConfigSpec(type=type)
    spec.provisioning.partition_spec.label = label
    spec.provisioning.wave = USER_WAVE if user else 0
    assert find_devices(make_machine(), "u-db", spec, {SELECTOR: selector}, SYSTEM) == devices


def test_a_partition_of_etcd_stays_where_it_is() -> None:
    spec = block_pb2.VolumeConfigSpec(type=PARTITION)
    spec.provisioning.partition_spec.label, spec.mount.parent_id = "u-db", "EPHEMERAL"
    assert choose_disks(make_machine(), spec, "system_disk", SYSTEM, "here") == ["/dev/vdc"]


@pytest.mark.parametrize(
    ("volume", "annotations", "error"),
    [
        (
            "u-db",
            {SELECTOR: "false"},
            "UserVolumeConfig db provisioning.diskSelector.match: no disk matches false",
        ),
        ("u-db", {SELECTOR: "system_disk"}, r"/dev/vda is the system disk \(add && !system_disk\)"),
        ("EPHEMERAL", {SELECTOR: "disk.cdrom"}, "VolumeConfig EPHEMERAL .*: no disk matches"),
        ("/dev/sr0", {DEVICE: "/dev/sr0"}, "machine.disks /dev/sr0: /dev/sr0 is no disk that can be used"),
    ],
)
def test_where_no_disk_can_be_had_the_place_in_the_config_is_named(
    volume: str, annotations: dict[str, str], error: str
) -> None:
    spec = block_pb2.VolumeConfigSpec(type=WHOLE)
    with pytest.raises(UserError, match=error):
        find_devices(make_machine(), volume, spec, annotations, SYSTEM)
