"""Volumes from discovery to mount and back, by the controllers, on a disk in memory."""

import errno

import pytest
from tests.unit.disks.raid.heads import SYSTEM, make_head
from tests.unit.disks.raid.memory_mdadm import UUID
from tests.unit.disks.volumes.disks import DISK, MemoryBlocks
from tests.unit.machined.controllers.block.world import CONFIG, World
from trio.testing import wait_all_tasks_blocked

from talos.api.definitions import block_pb2, storage_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.read.loader import load
from talos.disks.volumes.requests import (
    end_lifecycle,
    request_mount,
    wait_until_settled,
)
from talos.disks.volumes.status import make_wanted_volume
from talos.disks.volumes.system import make_volumes
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import modify, put, wait_for
from talos.system.block.blkid import Content
from talos.system.block.layout import GIB
from talos.system.block.md import MEMBER, format_uuid
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts


class BrokenMounts(MemoryMounts):
    """Mounting fails until the filesystem was repaired."""

    def __init__(self, blocks: MemoryBlocks, number: int) -> None:
        super().__init__()
        self._blocks = blocks
        self._number = number

    def mount(self, point: MountPoint) -> None:
        if not any(write.startswith("repair") for write in self._blocks.writes):
            raise OSError(self._number, "Structure needs cleaning")
        super().mount(point)


CACHE = "/system/imagecache/disk"
IMAGE_CACHE = b"---\napiVersion: v1alpha1\nkind: ImageCacheConfig\nlocal: {enabled: true}\n"
IMAGE_CACHE_VOLUME = b"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: IMAGECACHE\n"


async def test_a_machine_without_disks_goes_on() -> None:
    world = World()
    async with world.run():
        await request_mount(world.state, "STATE")
        await world.wait("META", enums.VOLUME_PHASE_WAITING)
        await world.discover(installed=False)
        assert not await wait_until_settled(world.state, "STATE", world.log)
        await world.wait("META", enums.VOLUME_PHASE_MISSING)
        await world.wait("STATE", enums.VOLUME_PHASE_MISSING)


async def test_a_system_on_an_array_is_waited_for_until_that_runs() -> None:
    world = World()
    world.blocks.heads[0] = make_head(*SYSTEM)
    member = block_pb2.DiscoveredVolumeSpec(name=MEMBER, dev_path=DISK, uuid=UUID)
    async with world.run():
        await put(world.state, kinds.DISCOVERED_VOLUME, "vda", member)
        await world.discover(installed=False)
        await request_mount(world.state, "STATE")
        await wait_all_tasks_blocked()
        await world.wait("STATE", enums.VOLUME_PHASE_WAITING)
        await world.wait("META", enums.VOLUME_PHASE_WAITING)
        failed = storage_pb2.MDArrayStatusSpec(uuid=format_uuid(UUID), status=enums.MD_ARRAY_PHASE_ERROR)
        await put(world.state, kinds.MD_ARRAY_STATUS, "system", failed)
        await world.wait("META", enums.VOLUME_PHASE_MISSING)
        await world.wait("STATE", enums.VOLUME_PHASE_MISSING)


async def test_the_volumes_of_a_first_boot() -> None:
    world = World()
    async with world.run():
        await request_mount(world.state, "STATE")
        await world.discover()
        meta = await world.wait("META", enums.VOLUME_PHASE_READY)
        assert meta.location == "/dev/vda4"
        disk = await wait_for(world.state, *ids.SYSTEM_DISK, lambda _: True)
        assert (disk.spec.disk_id, disk.spec.dev_path) == ("vda", DISK)
        assert not await wait_until_settled(world.state, "STATE", world.log)
        assert world.blocks.writes == [], "without a config nothing is made"

        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        assert await wait_for(world.state, kinds.VOLUME_MOUNT_STATUS, "sequencer-STATE", lambda _: True)
        state = await world.wait("STATE", enums.VOLUME_PHASE_READY)
        assert (state.location, state.pretty_size) == ("/dev/vda5", "105 MB")
        assert (state.parent_location, state.filesystem) == (DISK, enums.FILESYSTEM_TYPE_XFS)
        assert "mode /system/state 700" in world.blocks.writes
        assert world.refreshed == 1
        (mount,) = world.mounts.list()
        assert mount.options == ("nosuid", "nodev", "noexec")
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_WAITING)
        assert len(world.blocks.partitions) == 5, "EPHEMERAL is not requested yet"

        await request_mount(world.state, "EPHEMERAL")
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        assert world.blocks.writes[-1] == "mode /var 755"
        mount = world.mounts.list()[-1]
        assert (mount.target, mount.source, mount.options) == ("/var", "/dev/vda6", ("nosuid", "nodev"))
        status = await wait_for(world.state, kinds.MOUNT_STATUS, "EPHEMERAL", lambda _: True)
        assert (status.spec.target, status.spec.filesystem_type) == ("/var", "xfs")

        await end_lifecycle(world.state, world.log)
        assert world.mounts.list() == []
        assert await world.state.list(kinds.VOLUME_MOUNT_STATUS) == []


async def test_what_is_busy_at_the_end_is_named_and_made_read_only() -> None:
    world = World()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        await request_mount(world.state, "STATE")
        await world.discover()
        await world.wait("STATE", enums.VOLUME_PHASE_READY)
        world.mounts.busy.add("/system/state")
        await end_lifecycle(world.state, world.log)
    assert "ro" in world.mounts.list()[0].options
    assert any("still in use" in line and "/system/state" in line for line in world.lines)


async def test_a_foreign_filesystem_is_an_error_that_ends_with_its_cause() -> None:
    world = World()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        await request_mount(world.state, "STATE")
        await world.discover()
        await world.wait("STATE", enums.VOLUME_PHASE_READY)
    foreign = World(blocks=world.blocks)
    foreign.blocks.contents[5] = Content(kind="filesystem", name="ext4", label="photos")
    async with foreign.run():
        await publish_config(foreign.state, ids.MACHINE_CONFIG, CONFIG)
        await request_mount(foreign.state, "STATE")
        await foreign.discover()
        assert not await wait_until_settled(foreign.state, "STATE", foreign.log)
        status = await foreign.wait("STATE", enums.VOLUME_PHASE_FAILED)
        assert "STATE: /dev/vda5 holds ext4 (photos), no xfs" in status.error_message
        assert status.pre_fail_phase == enums.VOLUME_PHASE_PROVISIONED
        assert status.location == "/dev/vda5"
        foreign.blocks.contents[5] = Content()
        await modify(foreign.state, kinds.DISK, "vda", lambda spec: setattr(spec, "size", 1))
        status = await foreign.wait("STATE", enums.VOLUME_PHASE_READY)
        assert not status.error_message


@pytest.mark.parametrize("number", [errno.EUCLEAN, errno.EBADMSG])
@pytest.mark.parametrize("dirty", [False, True])
async def test_a_broken_filesystem_is_repaired(number: int, *, dirty: bool) -> None:
    blocks = MemoryBlocks(dirty_log=dirty)
    world = World(blocks=blocks, mounts=BrokenMounts(blocks, number))
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        await request_mount(world.state, "STATE")
        await world.discover()
        await world.wait("STATE", enums.VOLUME_PHASE_READY)
    repairs = [write for write in blocks.writes if write.startswith("repair")]
    dropped = ["repair /dev/vda5 without its log"] if dirty else []
    assert repairs == ["repair /dev/vda5", *dropped]
    assert any("is lost" in line for line in world.lines) == dirty


@pytest.mark.parametrize("dirty", [False, True])
async def test_what_a_filesystem_has_recorded_as_broken_is_repaired_before_the_mount(*, dirty: bool) -> None:
    blocks = MemoryBlocks(dirty_log=dirty, has_errors=True)
    world = World(blocks=blocks)
    await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + DATA + EXT4)
    async with world.run():
        await world.discover()
        await world.add_disk()
        await request_mount(world.state, "EPHEMERAL")
        await world.wait("u-data", enums.VOLUME_PHASE_READY)
    repairs = [write for write in blocks.writes if write.startswith("repair /dev/vda6")]
    assert len(repairs) == 1 + dirty
    assert any("is in lost+found" in line for line in world.lines) == dirty


async def test_a_disk_that_fails_is_not_repaired() -> None:
    blocks = MemoryBlocks()
    world = World(blocks=blocks, mounts=BrokenMounts(blocks, errno.EIO))
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        await request_mount(world.state, "STATE")
        await world.discover()
        status = await world.wait("STATE", enums.VOLUME_PHASE_FAILED)
    assert status.error_message.startswith("/dev/vda5: can't be mounted: ")
    assert not any(write.startswith("repair") for write in blocks.writes)


async def test_directories_in_a_container() -> None:
    world = World()
    world.mounts.mount(MountPoint(source="/dev/loop1", target="/var", type="xfs"))
    async with world.run(has_partitions=False):
        for volume in ("STATE", "EPHEMERAL"):
            await request_mount(world.state, volume)
            assert await wait_until_settled(world.state, volume, world.log)
        mount = await wait_for(world.state, kinds.MOUNT_STATUS, "EPHEMERAL", lambda _: True)
        assert (mount.id, mount.spec.source) == ("EPHEMERAL", "/dev/loop1")
        await end_lifecycle(world.state, world.log)
    assert [mount.target for mount in world.mounts.list()] == ["/var"], "what a launcher mounted is its own"


@pytest.mark.parametrize("has_partitions", [True, False])
async def test_a_users_folder_is_made_once_there_is_a_place_for_it(*, has_partitions: bool) -> None:
    world = World()
    if not has_partitions:
        world.mounts.mount(MountPoint(source="/dev/loop1", target="/var", type="xfs"))
    document = b"---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: db\nvolumeType: directory\n"
    await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + document)
    async with world.run(has_partitions=has_partitions):
        if has_partitions:
            await world.discover()
            await world.wait("u-db", enums.VOLUME_PHASE_WAITING)
            assert not world.folders, "not where EPHEMERAL will be mounted"
            await request_mount(world.state, "EPHEMERAL")
        await world.wait("u-db", enums.VOLUME_PHASE_READY)
        await end_lifecycle(world.state, world.log)
    assert {*world.folders} == {"/var/mnt/db 755"}


@pytest.mark.parametrize(
    ("provisioning", "minimum", "limit"),
    [
        ("", 2 * GIB, 100 * GIB),
        ("{maxSize: 10GiB}", 2 * GIB, 10 * GIB),
        ("{minSize: 4GiB, maxSize: 50%, grow: false}", 4 * GIB, 50 * GIB),
        ("{maxSize: -20GiB}", 2 * GIB, 80 * GIB),
        ("{maxSize: -25%}", 2 * GIB, 75 * GIB),
    ],
)
def test_ephemeral_by_the_config(provisioning: str, minimum: int, limit: int) -> None:
    document = (
        f"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\nprovisioning: {provisioning}\n"
    )
    config = load(CONFIG + (document if provisioning else "").encode())
    spec, _ = make_volumes(config)["EPHEMERAL"]
    wanted = make_wanted_volume("EPHEMERAL", spec)
    assert (wanted.minimum, wanted.limit(100 * GIB)) == (minimum, limit)
    assert wanted.grow == ("grow" not in provisioning)


@pytest.mark.parametrize(
    ("filesystem", "group"),
    [("", 64 * GIB), ("filesystem: {xfs: {minAllocationGroupSize: 4GiB}}\n", 4 * GIB)],
)
async def test_the_smallest_allocation_group_is_configured(filesystem: str, group: int) -> None:
    documents = b"".join(document + filesystem.encode() for document in (EPHEMERAL_2G, DATA))
    world = World()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + documents)
        await world.discover()
        await world.add_disk()
        await request_mount(world.state, "EPHEMERAL")
        await world.wait("u-data", enums.VOLUME_PHASE_READY)
    assert world.blocks.groups == [group, group]


async def test_a_cache_of_images_is_made_before_the_rest_of_the_disk_is_taken() -> None:
    world = World()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + IMAGE_CACHE)
        await request_mount(world.state, "STATE")
        await world.discover()
        await world.wait("STATE", enums.VOLUME_PHASE_READY)
        await world.wait("IMAGECACHE", enums.VOLUME_PHASE_MISSING)
        assert len(world.blocks.partitions) == 5, "it is made where a document says so only"
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + IMAGE_CACHE + IMAGE_CACHE_VOLUME)
        status = await world.wait("IMAGECACHE", enums.VOLUME_PHASE_READY)
        assert (status.location, status.size) == ("/dev/vda6", GIB)
        await request_mount(world.state, "EPHEMERAL")
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        mounts = {mount.target: mount for mount in world.mounts.list()}
        assert (mounts["/var"].source, mounts[CACHE].source) == ("/dev/vda7", "/dev/vda6")
        assert mounts[CACHE].options == ("nosuid", "nodev", "noexec")


async def test_state_is_made_before_a_cache_of_images() -> None:
    world = World()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + IMAGE_CACHE + IMAGE_CACHE_VOLUME)
        await request_mount(world.state, "STATE")
        await world.discover()
        status = await world.wait("IMAGECACHE", enums.VOLUME_PHASE_READY)
        assert status.location == "/dev/vda6"


async def test_a_selector_names_another_disk_or_none() -> None:
    document = (
        b"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\n"
        b"provisioning: {diskSelector: {match: 'disk.transport == \"nvme\"'}}\n"
    )
    world = World()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + document)
        await request_mount(world.state, "EPHEMERAL")
        await world.discover()
        status = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_FAILED)
    assert 'no disk matches disk.transport == "nvme"' in status.error_message


EPHEMERAL_2G = b"""---
apiVersion: v1alpha1
kind: VolumeConfig
name: EPHEMERAL
provisioning: {maxSize: 2GiB, grow: false}
"""
DATA = b"""---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning: {diskSelector: {match: system_disk}, maxSize: 1GiB}
mount: {disableAccessTime: true}
"""


EXT4 = b"filesystem: {type: ext4}\n"


async def test_a_users_volume_with_ext4() -> None:
    world = World()
    await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + DATA + EXT4)
    async with world.run():
        await world.discover()
        await world.add_disk()
        await request_mount(world.state, "EPHEMERAL")
        status = await world.wait("u-data", enums.VOLUME_PHASE_READY)
        assert status.filesystem == enums.FILESYSTEM_TYPE_EXT4
        mount = world.mounts.list()[-1]
        assert (mount.target, mount.type) == ("/var/mnt/data", "ext4")
        assert mount.options == ("nosuid", "nodev", "noexec", "noatime")

        other = DATA + b"filesystem: {type: xfs}\n"
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G)
        await world.wait_until_gone("u-data")
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + other)
        status = await world.wait("u-data", enums.VOLUME_PHASE_FAILED)
        assert "/dev/vda6 holds ext4, no xfs: it is not formatted over" in status.error_message


async def test_a_users_partition_lives_as_long_as_its_document_and_its_content_longer() -> None:
    world = World()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + DATA)
        await world.discover()
        await world.add_disk()
        await world.wait("u-data", enums.VOLUME_PHASE_WAITING)
        await request_mount(world.state, "EPHEMERAL")
        status = await world.wait("u-data", enums.VOLUME_PHASE_READY)
        assert (status.location, status.pretty_size) == ("/dev/vda6", "1.1 GB")
        mount = world.mounts.list()[-1]
        assert (mount.source, mount.target) == ("/dev/vda6", "/var/mnt/data")
        assert mount.options == ("nosuid", "nodev", "noexec", "noatime")
        assert await wait_for(world.state, kinds.VOLUME_MOUNT_STATUS, "u-data", lambda _: True)
        writes = [*world.blocks.writes]

        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G)
        await world.wait_until_gone("u-data")
        assert [mount.target for mount in world.mounts.list()] == ["/var"]
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + DATA)
        await world.wait("u-data", enums.VOLUME_PHASE_READY)
        assert world.blocks.writes == [*writes, "mode /var/mnt/data 755"], "what it holds is lost"

        world.mounts.busy.add("/var/mnt/data")
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G)
        await world.wait_until_gone("u-data")
        assert any("volume u-data: can't be unmounted" in line for line in world.lines)
        world.mounts.busy.clear()
        await end_lifecycle(world.state, world.log)
    assert world.mounts.list() == []


@pytest.mark.parametrize(
    ("has_partitions", "more", "reason"),
    [
        (False, "", "a container has no disks of its own (use volumeType: directory)"),
        (
            True,
            "filesystem: {type: btrfs}\n",
            "the filesystem btrfs is not supported by this version (use xfs or ext4)",
        ),
    ],
)
async def test_a_users_volume_that_can_not_be_had(more: str, reason: str, *, has_partitions: bool) -> None:
    world = World()
    if not has_partitions:
        world.mounts.mount(MountPoint(source="/dev/loop1", target="/var", type="xfs"))
    await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL_2G + DATA + more.encode())
    async with world.run(has_partitions=has_partitions):
        if has_partitions:
            await world.discover()
            await request_mount(world.state, "EPHEMERAL")
        text = f"UserVolumeConfig data: {reason}"
        await wait_for(
            world.state, kinds.VOLUME_STATUS, "u-data", lambda status: status.spec.error_message == text
        )
    assert len(world.blocks.partitions) == (5 if has_partitions else 0)
