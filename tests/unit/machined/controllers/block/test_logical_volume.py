"""A user's volume on a logical volume: a disk that has no partitions, and that grows while it is used."""

from dataclasses import dataclass, field, replace

import pytest
from tests.unit.disks.volumes.disks import MemoryBlocks

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.disk import LOGICAL
from talos.disks.volumes.blocks import NewFilesystem
from talos.disks.volumes.requests import request_mount
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.system.block.blkid import Content
from talos.system.block.layout import GIB

from .world import CONFIG, World

LOGICAL_DISK = "/dev/dm-0"
DATA = b"""---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
volumeType: KIND
provisioning: {diskSelector: {match: '"/dev/disk/by-id/dm-name-pool-data" in disk.symlinks'}}
"""
MANY = DATA.replace(b"KIND", b"partition").replace(b"provisioning: {", b"provisioning: {maxSize: 1GiB, ")


@dataclass
class Blocks(MemoryBlocks):
    logical: Content = field(default_factory=lambda: Content(size=GIB))

    async def probe(self, device: str) -> Content:
        return self.logical if device == LOGICAL_DISK else await super().probe(device)

    async def read_head(self, device: str) -> bytes:
        return bytes(4096) if device == LOGICAL_DISK else await super().read_head(device)

    async def format(self, device: str, filesystem: NewFilesystem) -> None:
        if device != LOGICAL_DISK:
            await super().format(device, filesystem)
        else:
            name, size = filesystem.type, filesystem.size
            self.logical = replace(self.logical, kind="filesystem", name=name, filesystem_size=size)


async def find_logical(world: World, size: int, *more: str) -> None:
    """What udevd writes of it."""
    links = ["/dev/disk/by-id/dm-name-pool-data", f"{LOGICAL}{'x' * 64}", *more]
    spec = block_pb2.DiskSpec(dev_path=LOGICAL_DISK, size=size, symlinks=links)
    await put(world.state, kinds.DISK, "dm-0", spec)


@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
async def test_it_is_used_and_grows(filesystem: str) -> None:
    world = World(blocks=Blocks())
    document = DATA.replace(b"KIND", b"disk") + b"filesystem: {type: %b}\n" % filesystem.encode()
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + document)
        await request_mount(world.state, "EPHEMERAL")
        await world.discover()
        await world.wait("u-data", enums.VOLUME_PHASE_FAILED)
        await find_logical(world, GIB)
        status = await world.wait("u-data", enums.VOLUME_PHASE_READY)
        assert (status.location, status.size) == (LOGICAL_DISK, GIB)
        assert world.mounts.list()[-1].type == filesystem
        await find_logical(world, 2 * GIB)
        await wait_for(world.state, kinds.VOLUME_STATUS, "u-data", lambda found: found.spec.size == 2 * GIB)
    assert world.blocks.writes[-1] == "grow filesystem /var/mnt/data"


async def test_it_takes_no_partitions() -> None:
    world = World(blocks=Blocks())
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + MANY)
        await request_mount(world.state, "EPHEMERAL")
        await find_logical(world, GIB)
        await world.discover()
        status = await world.wait("u-data", enums.VOLUME_PHASE_FAILED)
        assert "no disk matches" in status.error_message


async def test_a_part_of_one_is_no_disk() -> None:
    world = World(blocks=Blocks())
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + DATA.replace(b"KIND", b"disk"))
        await request_mount(world.state, "EPHEMERAL")
        await find_logical(world, GIB, "/dev/disk/by-id/dm-name-pool-data_rimage_0")
        await world.discover()
        status = await world.wait("u-data", enums.VOLUME_PHASE_FAILED)
        assert "no disk matches" in status.error_message
