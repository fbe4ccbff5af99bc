"""Encrypted volumes by the controllers: from the config, from META, with other keys and without one."""

import pytest
import trio
from tests.unit.machined.controllers.block.world import CONFIG, World
from trio.testing import MockClock

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.hardware_pb2 import SystemInformationSpec
from talos.disks.volumes.requests import end_lifecycle, request_mount, wait_until_settled
from talos.machined.controllers.block.volume_manager import RETRY
from talos.machined.node.config_store import publish_config
from talos.machined.node.meta_store import STATE_ENCRYPTION
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.system.block.blkid import Content

UUID = "2f1d4e0a-7c39-4b58-9d6e-81c5a3f0b742"


def encrypt(volume: str, keys: str) -> bytes:
    return (
        f"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: {volume}\n"
        f"encryption: {{provider: luks2, keys: [{keys}]}}\n"
    ).encode()


STATE = encrypt("STATE", "{slot: 0, nodeID: {}}")
EPHEMERAL = encrypt("EPHEMERAL", "{slot: 0, static: {passphrase: one}}, {slot: 1, nodeID: {}}")


async def boot(world: World, config: bytes = b"") -> None:
    """To the point where PID 1 requests the volumes."""
    await put(world.state, *ids.SYSTEM_INFORMATION, SystemInformationSpec(uuid=UUID))
    if config:
        await publish_config(world.state, ids.MACHINE_CONFIG, config)
    await world.discover(installed=not world.blocks.partitions)
    await world.discover_meta()
    await request_mount(world.state, "STATE")
    if config:
        await request_mount(world.state, "EPHEMERAL")


def restart(world: World) -> World:
    """The same disk and META in a new boot."""
    return World(blocks=world.blocks, crypt=world.crypt, meta=world.meta)


async def install() -> World:
    world = World()
    async with world.run():
        await boot(world, CONFIG + STATE + EPHEMERAL)
        state = await world.wait("STATE", enums.VOLUME_PHASE_READY)
        rest = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        assert state.encryption_provider == rest.encryption_provider == enums.ENCRYPTION_PROVIDER_LUKS2
        assert list(rest.configured_encryption_keys) == ["nodeID", "static"]
        assert (rest.location, rest.mount_location) == ("/dev/vda6", "/dev/mapped/dev/vda6")
        assert not rest.encryption_failed_syncs
        mount = await world.state.get(kinds.MOUNT_STATUS, "EPHEMERAL")
        assert (mount.spec.encrypted, list(mount.spec.encryption_providers)) == (True, ["luks2"])
        await end_lifecycle(world.state, world.log)
    assert world.crypt.opened == {}, "they are closed at the end"
    return world


async def test_state_is_opened_by_meta_before_there_is_a_config() -> None:
    world = restart(await install())
    assert b"KeyNodeID" in world.meta.written[STATE_ENCRYPTION]
    async with world.run():
        await boot(world)
        assert await wait_until_settled(world.state, "STATE", world.log)
        status = await world.wait("STATE", enums.VOLUME_PHASE_READY)
        assert status.encryption_provider == enums.ENCRYPTION_PROVIDER_LUKS2
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + EPHEMERAL)
        await request_mount(world.state, "EPHEMERAL")
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
    assert STATE_ENCRYPTION in world.meta.written, "STATE stays encrypted without a word of the config"


async def test_another_machine_opens_nothing_and_can_be_managed() -> None:
    world = restart(await install())
    world.meta.written[0x0F] = b"c0a86b1e-55d2-4f97-8e3b-1a74d9260f3c"
    writes = len(world.blocks.writes)
    async with world.run():
        await boot(world)
        assert not await wait_until_settled(world.state, "STATE", world.log)
        status = await world.wait("STATE", enums.VOLUME_PHASE_FAILED)
        text = "STATE: /dev/vda5 can't be unlocked: slot 0 (nodeID): encryption key rejected"
        assert status.error_message == text
        found = await wait_for(world.state, kinds.DIAGNOSTIC, "volume-state", lambda _: True)
        assert (found.spec.message, list(found.spec.details)) == ("volume STATE can't be used", [text])
        assert any(text in line for line in world.lines)
    assert len(world.blocks.writes) == writes


async def test_other_keys_of_a_volume_in_use() -> None:
    world = World()
    async with world.run():
        await boot(world, CONFIG + STATE + EPHEMERAL)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        new = encrypt("STATE", "{slot: 0, static: {passphrase: s}}")
        new += encrypt("EPHEMERAL", "{slot: 0, static: {passphrase: two}}")
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + new)
        for volume, kinds_of_keys in (("EPHEMERAL", ["static"]), ("STATE", ["static"])):
            await wait_for(
                world.state,
                kinds.VOLUME_STATUS,
                volume,
                lambda status, wanted=kinds_of_keys: list(status.spec.configured_encryption_keys) == wanted,
            )
        assert world.crypt.slots == {"/dev/vda5": {0: b"s"}, "/dev/vda6": {0: b"two"}}
        assert b"KeyNodeID" not in world.meta.written[STATE_ENCRYPTION]


@pytest.mark.parametrize("before", [True, False])
async def test_a_config_that_does_not_match_what_is_there(*, before: bool) -> None:
    """Nothing is written, and it is a diagnostic."""
    first, then = (STATE, b"") if before else (b"", STATE)
    world = World()
    async with world.run():
        await boot(world, CONFIG + first)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        writes = list(world.blocks.writes)
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + then)
        found = await wait_for(world.state, kinds.DIAGNOSTIC, "volume-state", lambda _: True)
        assert found.spec.message == "volume STATE is not encrypted as configured"
        assert [write for write in world.blocks.writes if write not in writes] == []
    assert (STATE_ENCRYPTION in world.meta.written) == before, "META has how STATE is"


async def test_the_old_setting_and_the_document() -> None:
    old = b"  systemDiskEncryption: {state: {provider: luks2, keys: [{slot: 2, static: {passphrase: x}}]}}\n"
    world = World()
    async with world.run():
        await boot(world, CONFIG + old)
        status = await world.wait("STATE", enums.VOLUME_PHASE_READY)
    assert status.encryption_slot == 2
    assert world.crypt.slots == {"/dev/vda5": {2: b"x"}}


SMALL = b"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\nprovisioning: {maxSize: 2GiB}\n"
DATA = (
    b"---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\n"
    b"provisioning: {diskSelector: {match: system_disk}, minSize: 1GiB, maxSize: 1GiB}\n"
    b"encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}], allowDiscards: true}\n"
)
MAPPED = "/dev/mapped/dev/vda7"


async def test_a_users_disk() -> None:
    world = World()
    async with world.run():
        await boot(world, CONFIG + SMALL + DATA)
        await world.add_disk()
        status = await world.wait("u-data", enums.VOLUME_PHASE_READY)
        assert status.encryption_allow_discards
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + SMALL)
        await world.wait_until_gone("u-data")
        assert world.crypt.opened == {}


async def test_discards_that_are_allowed_later_are_those_of_the_next_boot() -> None:
    world = World()
    async with world.run():
        await boot(world, CONFIG + SMALL + DATA.replace(b"allowDiscards: true", b"options: []"))
        await world.add_disk()
        await world.wait("u-data", enums.VOLUME_PHASE_READY)
        more = DATA.replace(b"nodeID: {}}", b"nodeID: {}}, {slot: 1, static: {passphrase: x}}")
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + SMALL + more)
        status = await wait_for(
            world.state,
            kinds.VOLUME_STATUS,
            "u-data",
            lambda status: len(status.spec.configured_encryption_keys) == 2,
        )
        assert not status.spec.encryption_allow_discards, "the kernel does not pass them"


async def test_a_volume_that_can_not_be_used_is_locked_again() -> None:
    """So that it can be wiped."""
    world = World()
    async with world.run():
        await boot(world, CONFIG + SMALL + DATA)
        await world.add_disk()
        await world.wait("u-data", enums.VOLUME_PHASE_READY)
        await end_lifecycle(world.state, world.log)
    world = restart(world)
    world.blocks.inside[MAPPED] = Content(kind="filesystem", name="ext4")
    async with world.run():
        await boot(world, CONFIG + SMALL + DATA)
        await world.add_disk()
        status = await world.wait("u-data", enums.VOLUME_PHASE_FAILED)
        assert "holds ext4, no xfs" in status.error_message
        assert world.crypt.opened == {}


async def test_a_volume_without_a_document_is_locked_once_nothing_uses_it(autojump_clock: MockClock) -> None:
    """A container may have it mounted for itself."""
    del autojump_clock
    world = World()
    async with world.run():
        await boot(world, CONFIG + SMALL + DATA)
        await world.add_disk()
        await world.wait("u-data", enums.VOLUME_PHASE_READY)
        world.crypt.busy.add("luks2-u-data")
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + SMALL)
        await world.wait_until_gone("u-data")
        assert any("volume u-data: can't be locked" in line for line in world.lines)
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + SMALL + DATA)
        status = await world.wait("u-data", enums.VOLUME_PHASE_FAILED)
        assert "it is still in use" in status.error_message
        world.crypt.busy.clear()
        await world.wait("u-data", enums.VOLUME_PHASE_READY)
        assert [mount.target for mount in world.mounts.list()][-1] == "/var/mnt/data"

        world.crypt.busy.add("luks2-u-data")
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + SMALL)
        await world.wait_until_gone("u-data")
        world.crypt.busy.clear()
        await trio.sleep(2 * RETRY)
        assert world.crypt.opened == {}
