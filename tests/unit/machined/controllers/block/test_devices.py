"""Raw volumes and swap: partitions that are not mounted, by the controllers, on a disk in memory."""

import pytest
from tests.unit.machined.controllers.block.world import CONFIG, World

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.requests import end_lifecycle, request_mount
from talos.machined.node.config_store import publish_config
from talos.resource import ids
from talos.system.block.blkid import Content

SYSTEM = ("STATE", "EPHEMERAL")
KEY = "encryption: {provider: luks2, keys: [{slot: 0, static: {passphrase: x}}]}\n"


def document(kind: str, name: str, more: str = "") -> bytes:
    place = "provisioning: {diskSelector: {match: system_disk}, minSize: 200MiB, maxSize: 300MiB}\n"
    return f"---\napiVersion: v1alpha1\nkind: {kind}\nname: {name}\n{place}{more}".encode()


async def start(world: World, config: bytes) -> None:
    """A first boot with a config; EPHEMERAL leaves room."""
    small = b"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\nprovisioning: {maxSize: 4GiB}\n"
    await world.discover()
    await world.add_disk()
    await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + small + config)
    for volume in SYSTEM:
        await request_mount(world.state, volume)


async def test_a_raw_volume_is_a_partition_that_nothing_is_written_to() -> None:
    world = World()
    async with world.run():
        await start(world, document("RawVolumeConfig", "ceph"))
        status = await world.wait("r-ceph", enums.VOLUME_PHASE_READY)
        assert (status.location, status.size) == ("/dev/vda7", 300 << 20)
        assert status.filesystem == enums.FILESYSTEM_TYPE_NONE
        assert not any("format /dev/vda7" in write for write in world.blocks.writes)
        assert {mount.target for mount in world.mounts.list()} == {"/system/state", "/var"}

    world.blocks.contents[7] = Content(kind="filesystem", name="ceph_bluestore")
    before = list(world.blocks.writes)
    again = World(blocks=world.blocks)
    async with again.run():
        await start(again, document("RawVolumeConfig", "ceph"))
        await again.wait("r-ceph", enums.VOLUME_PHASE_READY)
        later = world.blocks.writes[len(before) :]
        assert not any("vda7" in write or write.startswith(("mark 7", "grow 7")) for write in later)


async def test_swap_is_made_anew_at_each_start_and_ends_with_its_document() -> None:
    world = World()
    async with world.run():
        await start(world, document("SwapVolumeConfig", "one"))
        status = await world.wait("s-one", enums.VOLUME_PHASE_READY)
        assert status.filesystem == enums.FILESYSTEM_TYPE_SWAP
        assert world.blocks.writes[-2:] == ["make swap /dev/vda7", "swap to /dev/vda7"]
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG)
        await world.wait_until_gone("s-one")
        assert world.blocks.writes[-1] == "end swap /dev/vda7"
        assert world.blocks.partitions[7].label == "s-one", "partitions stay"

        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + document("SwapVolumeConfig", "one"))
        world.blocks.contents[7] = Content(kind="other", name="swap")
        await world.wait("s-one", enums.VOLUME_PHASE_READY)
        assert world.blocks.writes[-2:] == ["make swap /dev/vda7", "swap to /dev/vda7"]
        await end_lifecycle(world.state, world.log)
        assert world.blocks.writes[-1] == "end swap /dev/vda7"


async def test_swap_is_not_made_of_something_else() -> None:
    world = World()
    async with world.run():
        await start(world, document("RawVolumeConfig", "one"))
        await world.wait("r-one", enums.VOLUME_PHASE_READY)
    row = world.blocks.partitions[7]
    world.blocks.partitions[7] = type(row)(number=7, start=row.start, size=row.size, label="s-one")
    world.blocks.contents[7] = Content(kind="filesystem", name="ext4")
    again = World(blocks=world.blocks)
    async with again.run():
        await start(again, document("SwapVolumeConfig", "one"))
        status = await again.wait("s-one", enums.VOLUME_PHASE_FAILED)
        assert "/dev/vda7 holds ext4, no swap: it is not formatted over" in status.error_message


@pytest.mark.parametrize(("kind", "volume"), [("RawVolumeConfig", "r-one"), ("SwapVolumeConfig", "s-one")])
async def test_encrypted_ones_are_used_by_their_mapped_device(kind: str, volume: str) -> None:
    world = World()
    async with world.run():
        await start(world, document(kind, "one", KEY))
        status = await world.wait(volume, enums.VOLUME_PHASE_READY)
        assert (status.location, status.mount_location) == ("/dev/vda7", "/dev/mapped/dev/vda7")
        assert status.encryption_provider == enums.ENCRYPTION_PROVIDER_LUKS2
        await end_lifecycle(world.state, world.log)
        assert not world.crypt.opened, "it is closed at the end"
    swaps = [write for write in world.blocks.writes if "swap" in write]
    place = "/dev/mapped/dev/vda7"
    wanted = [f"make swap {place}", f"swap to {place}", f"end swap {place}"]
    assert swaps == (wanted if volume == "s-one" else [])

    again = World(blocks=world.blocks)
    again.crypt.slots, again.crypt.tokens = world.crypt.slots, world.crypt.tokens
    async with again.run():
        await start(again, document(kind, "one", KEY))
        await again.wait(volume, enums.VOLUME_PHASE_READY)


async def test_a_container_has_none() -> None:
    world = World()
    async with world.run(has_partitions=False):
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + document("SwapVolumeConfig", "one"))
        await request_mount(world.state, "EPHEMERAL")
        status = await world.wait("s-one", enums.VOLUME_PHASE_FAILED)
        assert "a container has no disks of its own" in status.error_message
