"""``ExternalVolumeConfig``: the folder of a host, from its tag to its mount and back."""

import errno

from tests.unit.machined.controllers.block.world import CONFIG, World

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.requests import end_lifecycle, request_mount
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts

EXTERNAL = b"""---
apiVersion: v1alpha1
kind: ExternalVolumeConfig
name: share
filesystemType: virtiofs
mount: {readOnly: true, virtiofs: {tag: folder}}
"""


class Host(MemoryMounts):
    """A host that shares folders."""

    tags: tuple[str, ...] = ()

    def mount(self, point: MountPoint) -> None:
        if point.type == "virtiofs" and point.source not in self.tags:
            raise OSError(errno.EINVAL, "Invalid argument")
        super().mount(point)


async def test_it_is_mounted_once_its_host_shares_it_and_unmounted_with_its_document() -> None:
    host = Host()
    world = World(mounts=host)
    async with world.run():
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EXTERNAL)
        await world.discover()
        await request_mount(world.state, "EPHEMERAL")
        status = await world.wait("x-share", enums.VOLUME_PHASE_FAILED)
        assert status.error_message == "folder: can't be mounted: Invalid argument"
        host.tags = ("folder",)
        await modify(world.state, kinds.DISK, "vdb", lambda spec: setattr(spec, "size", 1))
        status = await world.wait("x-share", enums.VOLUME_PHASE_READY)
        assert (status.type, status.filesystem) == (
            enums.VOLUME_TYPE_EXTERNAL,
            enums.FILESYSTEM_TYPE_VIRTIOFS,
        )
        assert (status.mount_location, status.pretty_size) == ("folder", "")
        mount = world.mounts.list()[-1]
        assert (mount.source, mount.target, mount.type) == ("folder", "/var/mnt/share", "virtiofs")
        assert mount.options == ("nosuid", "nodev", "noexec", "ro")
        shown = await wait_for(world.state, kinds.BLOCK_MOUNT_STATUS, "x-share", lambda _: True)
        assert shown.spec.filesystem == enums.FILESYSTEM_TYPE_VIRTIOFS
        assert "mode /var/mnt/share 755" not in world.blocks.writes, "its owner is the host"

        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        await world.wait_until_gone("x-share")
        assert [mount.target for mount in world.mounts.list()] == ["/var"]
        await end_lifecycle(world.state, world.log)


async def test_a_container_has_none() -> None:
    world = World()
    world.mounts.mount(MountPoint(source="/dev/loop1", target="/var", type="xfs"))
    await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EXTERNAL)
    async with world.run(has_partitions=False):
        status = await world.wait("x-share", enums.VOLUME_PHASE_FAILED)
    assert status.error_message.startswith("ExternalVolumeConfig share: a container has no")
