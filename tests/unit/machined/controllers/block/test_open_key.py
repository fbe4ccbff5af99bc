"""The key that has opened a volume, sealed for starts to come: through them, and after every power cut."""

import pytest
from tests.unit.disks.volumes.disks import PowerCutError
from tests.unit.machined.controllers.block.test_encryption import boot, encrypt, restart
from tests.unit.machined.controllers.block.world import CONFIG, World

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.requests import end_lifecycle
from talos.system.errors import UserError
from talos.system.tpm.sealing import find_value

DEVICE = "/dev/vda6"
CONFIGURED = CONFIG + encrypt("EPHEMERAL", "{slot: 0, tpm: {}}")
USUAL, TRIAL, LATER = b"usual", b"trial", b"later"


async def install() -> World:
    """A machine whose volume has keys for two values of PCR 7 to come."""
    world = World()
    async with world.run():
        await boot(world, CONFIGURED)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        key = world.open_keys["EPHEMERAL"]
        assert (key.slot, await key.has_next()) == (0, False)
        await key.write(await key.seal(7, [TRIAL, LATER]))
        assert await key.has_next()
        await end_lifecycle(world.state, world.log)
    return world


def list_values(world: World) -> tuple[bytes | None, list[bytes | None]]:
    """Of PCR 7: what the slot is bound to, and its keys for starts to come, by their tokens."""
    further = world.crypt.next_keys.get(DEVICE, {})
    now = find_value(world.crypt.sealed_by_tpm[DEVICE][0], 7)
    return now, [find_value(key.sealed, 7) for _, key in sorted(further.items(), reverse=True)]


async def start(world: World, value: bytes, *settled: bytes, cut: int = -1) -> World:
    """The next boot, with another PCR 7; then its keys are settled."""
    world = restart(world)
    world.tpm.pcrs[7] = value.decode()
    async with world.run():
        await boot(world, CONFIGURED)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        if settled:
            world.blocks.cut = cut
            try:
                await world.open_keys["EPHEMERAL"].settle(7, settled)
            finally:
                world.blocks.cut = -1
        await end_lifecycle(world.state, world.log)
    return world


async def test_each_start_is_opened_by_the_key_for_it() -> None:
    world = await install()
    assert list_values(world) == (USUAL, [TRIAL, LATER])
    for value in (TRIAL, USUAL, LATER):
        world = await start(world, value)
    assert list_values(world) == (USUAL, [TRIAL, LATER]), "nothing is removed without a verdict"


async def test_with_the_verdict_the_slot_is_bound_to_what_is_there() -> None:
    world = await start(await install(), TRIAL, TRIAL, LATER)
    assert list_values(world) == (TRIAL, [LATER])
    world = await start(world, LATER, LATER)
    assert list_values(world) == (LATER, [])
    assert not any("removed" in line for line in (await start(world, LATER, LATER)).lines)


async def test_after_a_revert_the_slot_is_as_before() -> None:
    world = await start(await install(), USUAL, USUAL)
    assert list_values(world) == (USUAL, [])


async def test_a_power_cut_while_keys_are_settled() -> None:
    for cut in range(3):
        world = await install()
        with pytest.RaisesGroup(PowerCutError, flatten_subgroups=True, allow_unwrapped=True):
            world = await start(world, LATER, LATER, cut=cut)
        assert list_values(await start(world, LATER, LATER)) == (LATER, [])


async def test_a_header_without_room() -> None:
    world = await install()
    world.crypt.room = 600
    world = restart(world)
    async with world.run():
        await boot(world, CONFIGURED)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        key = world.open_keys["EPHEMERAL"]
        with pytest.raises(UserError, match="no room for 3 more tokens: 600 bytes are left"):
            await key.seal(7, [b"1", b"2", b"3"])
    assert list_values(world) == (USUAL, [TRIAL, LATER])


async def test_a_volume_that_another_key_has_opened() -> None:
    world = World()
    async with world.run():
        await boot(world, CONFIG + encrypt("EPHEMERAL", "{slot: 0, nodeID: {}}, {slot: 1, tpm: {}}"))
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        key = world.open_keys["EPHEMERAL"]
        assert key.slot is None
        with pytest.raises(UserError, match="EPHEMERAL: no key of the TPM has opened it"):
            await key.seal(7, [LATER])
