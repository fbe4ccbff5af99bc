"""``ExistingVolumeConfig``: which volume is meant, what it has to hold, and its mount."""

import threading

import pytest
import trio
from tests.unit.disks.volumes.disks import DISK, MemoryBlocks
from tests.unit.machined.controllers.block.world import CONFIG, World

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.existing import find_existing, open_existing
from talos.disks.volumes.requests import end_lifecycle, request_mount
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.resource import Resource, make_resource
from talos.system.block.blkid import Content, Partition
from talos.system.block.layout import GIB
from talos.system.errors import UserError
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts

EXISTING = b"""---
apiVersion: v1alpha1
kind: ExistingVolumeConfig
name: old
discovery: {volumeSelector: {match: 'volume.name == "xfs"'}}
"""
READ_ONLY = b"mount: {readOnly: true, disableAccessTime: true, secure: false}\n"
EPHEMERAL_2G = b"""---
apiVersion: v1alpha1
kind: VolumeConfig
name: EPHEMERAL
provisioning: {maxSize: 2GiB, grow: false}
"""


def make_volume(
    id: str, name: str, label: str = "", parent: str = ""
) -> Resource[block_pb2.DiscoveredVolumeSpec]:
    spec = block_pb2.DiscoveredVolumeSpec(
        dev_path=f"/dev/{id}",
        name=name,
        partition_label=label,
        parent=parent,
        parent_dev_path=f"/dev/{parent}" if parent else "",
    )
    return make_resource(kinds.DISCOVERED_VOLUME, id, spec)


FOUND = (
    make_volume("vdb2", "ext4", parent="vdb"),
    make_volume("vdb1", "xfs", "data", parent="vdb"),
    make_volume("vda5", "xfs", "STATE", parent="vda"),
    make_volume("vdc", "xfs"),
    make_volume("vda6", "ext4", "mine", parent="vda"),
    make_volume("vdb3", "btrfs", "STATE", parent="vdb"),
    make_volume("vdd1", "btrfs", parent="vdd"),
)
DISKS = {name: block_pb2.DiskSpec(serial=name) for name in ("vda", "vdb", "vdc")}


@pytest.mark.parametrize(
    ("selector", "taken", "device"),
    [
        ('volume.name == "xfs"', (), "/dev/vdb1"),
        ('volume.name == "xfs"', ("/dev/vdb1",), "/dev/vdc"),
        ('disk.serial == "vdb"', (), "/dev/vdb1"),
        ('disk.serial == "vdc"', (), "/dev/vdc"),
        ('volume.name == "xfs" && volume.partition_label == "STATE"', (), None),
        ('volume.partition_label == "STATE"', (), "/dev/vdb3"),
        ('volume.partition_label == "mine"', (), "/dev/vda6"),
        ('disk.serial == "" && volume.name == "btrfs"', (), "/dev/vdd1"),
    ],
)
def test_the_first_that_is_selected_but_none_of_the_system(
    selector: str, taken: tuple[str, ...], device: str | None
) -> None:
    found = find_existing(FOUND, DISKS, selector, "here", system=["/dev/vda"], taken=taken)
    assert (found and found.dev_path) == device


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (Content(), "filesystem not found on /dev/vda (it is blank, or its content is unknown)"),
        (
            Content(kind="other", name="crypto_LUKS"),
            "filesystem not found on /dev/vda (it holds crypto_LUKS)",
        ),
        (
            Content(kind="filesystem", name="ntfs"),
            "ntfs, which is not supported (one of: btrfs, ext2, ext3, ext4, iso9660, squashfs, vfat, xfs)",
        ),
    ],
)
async def test_what_can_not_be_mounted_is_named(content: Content, error: str) -> None:
    blocks = MemoryBlocks(whole=content)
    with pytest.raises(UserError) as raised:
        await open_existing(blocks, block_pb2.DiscoveredVolumeSpec(dev_path=DISK), "here")
    assert error in str(raised.value)
    assert not blocks.writes


async def test_a_filesystem_may_fill_a_whole_disk() -> None:
    blocks = MemoryBlocks(whole=Content(kind="filesystem", name="ext4"))
    place = await open_existing(blocks, block_pb2.DiscoveredVolumeSpec(dev_path=DISK), "here")
    assert (place.disk, place.device, place.content.name) == (DISK, DISK, "ext4")


def discover(spec: block_pb2.DiscoveredVolumeSpec) -> None:
    spec.CopyFrom(FOUND[1].spec)
    spec.dev_path, spec.parent, spec.parent_dev_path = f"{DISK}9", "vda", DISK


@pytest.mark.parametrize(
    ("more", "options"),
    [(b"", ("nosuid", "nodev", "noexec")), (READ_ONLY, ("noatime", "ro"))],
)
async def test_it_is_mounted_as_it_is_and_unmounted_with_its_document(
    more: bytes, options: tuple[str, ...]
) -> None:
    world = World()
    world.blocks.partitions[9] = Partition(number=9, start=8 * GIB, size=GIB, label="data")
    world.blocks.contents[9] = Content(kind="filesystem", name="xfs", uuid="kept")
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + EXISTING + more)
        await world.discover()
        await world.add_disk()
        await world.wait("e-old", enums.VOLUME_PHASE_WAITING)
        await request_mount(world.state, "EPHEMERAL")
        await world.wait("e-old", enums.VOLUME_PHASE_MISSING)
        writes = [*world.blocks.writes]
        await modify(world.state, kinds.DISCOVERED_VOLUME, "vda9", discover)
        status = await world.wait("e-old", enums.VOLUME_PHASE_READY)
        assert (status.location, status.parent_location, status.uuid) == (f"{DISK}9", DISK, "kept")
        assert status.filesystem == enums.FILESYSTEM_TYPE_XFS
        mount = world.mounts.list()[-1]
        assert (mount.source, mount.target, mount.type) == (f"{DISK}9", "/var/mnt/old", "xfs")
        assert mount.options == options
        shown = await wait_for(world.state, kinds.VOLUME_MOUNT_STATUS, "e-old", lambda _: True)
        assert (shown.spec.read_only, shown.spec.secure) == ("ro" in options, "nodev" in options)

        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G)
        await world.wait_until_gone("e-old")
        assert [mount.target for mount in world.mounts.list()] == ["/var"]
        assert world.blocks.writes == writes, "nothing is written to what is someone else's"
        await end_lifecycle(world.state, world.log)


class BusyMounts(MemoryMounts):
    """Has an event for a change of options that was refused, as the mount is busy."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = threading.Event()

    def change_options(self, target: str, options: tuple[str, ...]) -> None:
        try:
            super().change_options(target, options)
        except OSError:
            self.refused.set()
            raise


async def test_other_mount_options_take_effect_while_it_is_in_use() -> None:
    mounts = BusyMounts()
    world = World(mounts=mounts)
    world.blocks.partitions[9] = Partition(number=9, start=8 * GIB, size=GIB, label="data")
    world.blocks.contents[9] = Content(kind="filesystem", name="xfs")

    async def have(*options: str) -> None:
        await wait_for(
            world.state, kinds.MOUNT_STATUS, "e-old", lambda mount: tuple(mount.spec.options) == options
        )

    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + EXISTING)
        await world.discover()
        await world.add_disk()
        await request_mount(world.state, "EPHEMERAL")
        await modify(world.state, kinds.DISCOVERED_VOLUME, "vda9", discover)
        await have("nosuid", "nodev", "noexec")
        world.mounts.busy.add("/var/mnt/old")
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + EXISTING + READ_ONLY)
        await trio.to_thread.run_sync(mounts.refused.wait)
        world.mounts.busy.clear()
        await modify(world.state, kinds.DISK, "vda", lambda spec: setattr(spec, "size", 1))
        await have("noatime", "ro")
        assert any("volume e-old: its mount options can't be changed" in line for line in world.lines)
        shown = await world.state.get(kinds.BLOCK_MOUNT_STATUS, "e-old")
        assert shown.spec.read_only
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + EXISTING)
        await have("nosuid", "nodev", "noexec")


async def test_a_container_has_none() -> None:
    world = World()
    world.mounts.mount(MountPoint(source="/dev/loop1", target="/var", type="xfs"))
    await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EXISTING)
    async with world.run(has_partitions=False):
        status = await world.wait("e-old", enums.VOLUME_PHASE_FAILED)
    assert status.error_message == "ExistingVolumeConfig old: a container has no disks of its own"
