"""Volumes whose keys the TPM seals, by the controllers: made, opened, refused after a change, recovered."""

import json

from tests.unit.machined.controllers.block.test_encryption import boot, encrypt, restart
from tests.unit.machined.controllers.block.world import CONFIG, World

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.requests import end_lifecycle, wait_until_settled
from talos.machined.node.config_store import publish_config
from talos.machined.node.meta_store import STATE_ENCRYPTION
from talos.resource import ids, kinds
from talos.resource.changes import wait_for

STATE = encrypt("STATE", "{slot: 0, tpm: {}}")
EPHEMERAL = encrypt("EPHEMERAL", "{slot: 0, tpm: {options: {pcrs: [7]}}}, {slot: 1, static: {passphrase: x}}")
CHANGED = "PCR 7 has changed since the key was sealed"


async def install() -> World:
    world = World()
    async with world.run():
        await boot(world, CONFIG + STATE + EPHEMERAL)
        await world.wait("STATE", enums.VOLUME_PHASE_READY)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        await end_lifecycle(world.state, world.log)
    return world


async def test_state_is_opened_before_there_is_a_config() -> None:
    world = restart(await install())
    meta = json.loads(world.meta.written[STATE_ENCRYPTION])
    assert meta["EncryptionKeys"][0]["KeyTPM"]["TPMOptions"] == {"PCRs": [7]}
    async with world.run():
        await boot(world)
        assert await wait_until_settled(world.state, "STATE", world.log)
        status = await world.wait("STATE", enums.VOLUME_PHASE_READY)
        assert list(status.configured_encryption_keys) == ["tpm"]
        assert list(status.tpm_encryption_options.pc_rs) == [7]
        assert not status.encryption_failed_syncs


async def test_a_changed_pcr_is_named_and_another_slot_opens() -> None:
    world = restart(await install())
    world.tpm.pcrs[7] = "other"
    async with world.run():
        await boot(world, CONFIG + STATE + EPHEMERAL)
        status = await world.wait("STATE", enums.VOLUME_PHASE_FAILED)
        text = f"STATE: /dev/vda5 can't be unlocked: slot 0 (tpm): {CHANGED}"
        assert status.error_message == text
        found = await wait_for(world.state, kinds.DIAGNOSTIC, "volume-state", lambda _: True)
        assert list(found.spec.details) == [text]
        assert any(text in line for line in world.lines)
        status = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        assert status.encryption_slot == 1
        failed = await wait_for(
            world.state,
            kinds.VOLUME_STATUS,
            "EPHEMERAL",
            lambda found: bool(found.spec.encryption_failed_syncs),
        )
        assert list(failed.spec.encryption_failed_syncs) == [f"error updating key slot 0: {CHANGED}"]
        sealed = world.crypt.sealed_by_tpm["/dev/vda6"][0]
        await publish_config(
            world.state, ids.MACHINE_CONFIG, CONFIG + STATE + encrypt("EPHEMERAL", "{slot: 2, tpm: {}}")
        )
        await wait_for(
            world.state,
            kinds.VOLUME_STATUS,
            "EPHEMERAL",
            lambda found: found.spec.encryption_slot == 2 and not found.spec.encryption_failed_syncs,
        )
        by_tpm = world.crypt.sealed_by_tpm["/dev/vda6"]
        assert by_tpm.keys() == {2}
        assert by_tpm[2] != sealed


async def test_slots_change_when_the_tpm_is_locked() -> None:
    password, sealed_key = "{slot: 0, static: {passphrase: x}}", "{slot: 1, tpm: {}}"

    async def change(keys: str, slots: set[int]) -> None:
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + encrypt("EPHEMERAL", keys))
        found = await wait_for(
            world.state,
            kinds.VOLUME_STATUS,
            "EPHEMERAL",
            lambda _: set(world.crypt.slots["/dev/vda6"]) == slots,
        )
        assert not found.spec.encryption_failed_syncs

    world = World()
    async with world.run():
        await boot(world, CONFIG + encrypt("EPHEMERAL", f"{password}, {sealed_key}"))
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        world.tpm.is_locked = True
        await change(f"{password}, {sealed_key}, {{slot: 2, nodeID: {{}}}}", {0, 1, 2})
        await change("{slot: 3, tpm: {}}", {3})


async def test_a_key_that_can_not_be_sealed_writes_nothing() -> None:
    world = World()
    async with world.run():
        keys = "{slot: 0, tpm: {checkSecurebootStatusOnEnroll: true}}"
        await boot(world, CONFIG + encrypt("EPHEMERAL", keys))
        status = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_FAILED)
        assert status.error_message == "EPHEMERAL: can't be encrypted: slot 0 (tpm): Secure Boot is off"
    assert not world.crypt.slots
