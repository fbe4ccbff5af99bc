"""ETCD and LOG on partitions of their own, by the controllers, on a disk in memory."""

import pytest
from tests.unit.machined.controllers.block.world import CONFIG, World

from talos.api.definitions import enums_pb2 as enums
from talos.config.read.loader import load
from talos.disks.volumes.requests import end_lifecycle, find_dedicated, request_mount
from talos.disks.volumes.status import make_wanted_volume
from talos.disks.volumes.system import make_volumes
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.system.block.layout import DEDICABLE, GIB


def make_document(name: str, *settings: str) -> bytes:
    lines = "".join(f"{setting}\n" for setting in settings)
    return f"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: {name}\n{lines}".encode()


ETCD = make_document("ETCD", "provisioning: {maxSize: 1GiB}")
LOG = make_document("LOG", "provisioning: {minSize: 1GiB, maxSize: 1GiB}", "mount: {secure: false}")
KEYS = "encryption: {provider: luks2, keys: [{slot: 0, static: {passphrase: abc}}]}"


async def begin(world: World, *documents: bytes) -> None:
    """A boot until its request for EPHEMERAL."""
    await publish_config(world.state, ids.MACHINE_CONFIG, b"".join((CONFIG, *documents)))
    await world.discover()
    for volume in ("STATE", *DEDICABLE, "EPHEMERAL"):
        await request_mount(world.state, volume)


async def test_they_are_made_before_the_rest_is_taken_and_mounted_within_it() -> None:
    world = World()
    async with world.run():
        await begin(world, ETCD, LOG)
        etcd = await world.wait("ETCD", enums.VOLUME_PHASE_READY)
        assert (etcd.size, etcd.filesystem) == (GIB, enums.FILESYSTEM_TYPE_XFS)
        await world.wait("LOG", enums.VOLUME_PHASE_READY)
        mounts = {mount.target: mount for mount in world.mounts.list()}
        assert mounts["/var"].source == "/dev/vda8", "it took the room of the others"
        assert mounts["/var/lib/etcd"].options == ("nosuid", "nodev", "noexec")
        assert mounts["/var/log"].options == ()
        assert [*mounts].index("/var") < [*mounts].index("/var/lib/etcd")
        assert "mode /var/lib/etcd 700" in world.blocks.writes
        assert sorted(world.system_folders.made) == ["ETCD", "LOG"]
        assert sorted(await find_dedicated(world.state)) == ["ETCD", "LOG"]
        assert await wait_for(world.state, kinds.VOLUME_MOUNT_STATUS, "sequencer-LOG", lambda _: True)
        status = await world.wait("KUBELET", enums.VOLUME_PHASE_READY)
        assert status.type == enums.VOLUME_TYPE_DIRECTORY
        await end_lifecycle(world.state, world.log)
    assert world.mounts.list() == []

    again = World(blocks=world.blocks)
    writes = len(world.blocks.writes)
    async with again.run():
        await begin(again, ETCD, LOG)
        await again.wait("ETCD", enums.VOLUME_PHASE_READY)
        await again.wait("LOG", enums.VOLUME_PHASE_READY)
    assert all(write.startswith("mode ") for write in again.blocks.writes[writes:]), "what they hold is lost"


async def test_an_encrypted_one_is_opened_once_there_is_a_place_for_it() -> None:
    world = World()
    document = make_document("ETCD", "provisioning: {maxSize: 1GiB}", KEYS)
    async with world.run():
        await begin(world, document)
        status = await world.wait("ETCD", enums.VOLUME_PHASE_READY)
        assert status.mount_location == "/dev/mapped/dev/vda6"
        await end_lifecycle(world.state, world.log)
    assert not world.crypt.opened


async def test_one_that_can_not_be_opened_holds_no_other_back() -> None:
    world = World()
    async with world.run():
        await begin(world, make_document("ETCD", "provisioning: {maxSize: 1GiB}", KEYS), LOG)
        await world.wait("ETCD", enums.VOLUME_PHASE_READY)
        await end_lifecycle(world.state, world.log)
    again = World(blocks=world.blocks, crypt=world.crypt)
    async with again.run():
        other = KEYS.replace("abc", "xyz")
        await begin(again, make_document("ETCD", "provisioning: {maxSize: 1GiB}", other), LOG)
        await again.wait("LOG", enums.VOLUME_PHASE_READY)
        status = await again.wait("ETCD", enums.VOLUME_PHASE_FAILED)
        assert status.location == "/dev/vda6"
        assert status.error_message
        found = await wait_for(again.state, kinds.DIAGNOSTIC, "volume-etcd", lambda _: True)
        assert "volume ETCD can't be used" in found.spec.message
        assert "/var/lib/etcd" not in {mount.target for mount in again.mounts.list()}


async def test_the_rest_of_the_disk_waits_for_one_that_is_not_made() -> None:
    world = World()
    selector = "{diskSelector: {match: 'disk.transport == \"nvme\"'}}"
    async with world.run():
        await begin(world, make_document("ETCD", f"provisioning: {selector}"))
        status = await world.wait("ETCD", enums.VOLUME_PHASE_FAILED)
        assert "VolumeConfig ETCD provisioning.diskSelector.match: no disk matches" in status.error_message
        text = "it is made after ETCD, which can't be made"
        await wait_for(
            world.state, kinds.VOLUME_STATUS, "EPHEMERAL", lambda status: status.spec.error_message == text
        )
        assert len(world.blocks.partitions) == 5
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)


async def test_a_folder_with_something_in_it_is_not_hidden() -> None:
    world = World()
    world.system_folders.used.add("/var/lib/etcd")
    async with world.run():
        await begin(world, ETCD)
        status = await world.wait("ETCD", enums.VOLUME_PHASE_FAILED)
        assert '"ETCD" system volume cannot be changed' in status.error_message
        assert "(current: directory, requested: partition)" in status.error_message
    assert [mount.target for mount in world.mounts.list()] == ["/system/state", "/var"]


@pytest.mark.parametrize(
    ("provisioning", "minimum", "limit", "grow"),
    [
        ("{grow: true}", 2 * GIB, 9 * GIB, True),
        ("{maxSize: 1GiB}", GIB, GIB, False),
        ("{minSize: 3GiB, maxSize: 50%}", 3 * GIB, 9 * GIB // 2, False),
        ("{maxSize: -1GiB}", 2 * GIB, 8 * GIB, False),
    ],
)
def test_sizes(provisioning: str, minimum: int, limit: int, *, grow: bool) -> None:
    config = load(CONFIG + make_document("CRI", f"provisioning: {provisioning}"))
    spec, _ = make_volumes(config)["CRI"]
    wanted = make_wanted_volume("CRI", spec)
    assert (wanted.minimum, wanted.limit(9 * GIB), wanted.grow) == (minimum, limit, grow)
    assert (spec.mount.secure, spec.mount.no_exec, spec.mount.file_mode) == (True, False, 0o700)


def test_a_document_without_a_size_or_a_disk_leaves_it_a_folder() -> None:
    config = load(CONFIG + make_document("ETCD", "provisioning: {diskSelector: {}}"))
    assert "ETCD" not in make_volumes(config)
