"""Volumes whose keys a service in the network seals, by the controllers: slow, down, and back."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from tests.unit.machined.controllers.block.test_encryption import DATA, SMALL, boot, encrypt, restart
from tests.unit.machined.controllers.block.world import CONFIG, World
from trio.testing import MockClock

from talos.api.definitions import enums_pb2 as enums
from talos.api.internal import keys_pb2 as pb
from talos.disks.volumes.requests import end_lifecycle, request_mount
from talos.machined.controllers.block.key_service import SLOT_TIMEOUT
from talos.machined.node.config_store import publish_config
from talos.machined.node.key_requests import TIMEOUT
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.system.block.layout import MIB

URL = "https://kms.example.org"
KMS = encrypt("EPHEMERAL", f"{{slot: 0, kms: {{endpoint: '{URL}'}}}}")
BOTH = encrypt(
    "EPHEMERAL", f"{{slot: 0, kms: {{endpoint: '{URL}'}}}}, {{slot: 1, static: {{passphrase: x}}}}"
)
SEALED_DATA = DATA.replace(b"nodeID: {}", f"kms: {{endpoint: '{URL}'}}".encode())
IMAGE_CACHE = b"---\napiVersion: v1alpha1\nkind: ImageCacheConfig\nlocal: {enabled: true}\n"
RAW = (
    b"---\napiVersion: v1alpha1\nkind: RawVolumeConfig\nname: zero\n"
    b"provisioning: {diskSelector: {match: system_disk}, minSize: 200MiB, maxSize: 200MiB}\n"
)


@asynccontextmanager
async def serving(world: World, error: str = "") -> AsyncGenerator[None]:
    """A daemon that answers every request: it puts a letter before what is sealed."""

    async def serve() -> None:
        async for request in world.keys.follow():
            data = b"S" + request.data if request.seal else request.data[1:]
            assert request.endpoint == URL
            world.keys.answer(pb.KeyAnswer(number=request.number, data=b"" if error else data, error=error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        yield
        nursery.cancel_scope.cancel()


async def install(config: bytes) -> World:
    world = World()
    async with world.run(), serving(world):
        await boot(world, config)
        await world.add_disk()
        status = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        if status.encryption_provider:
            assert "kms" in status.configured_encryption_keys
        if SEALED_DATA in config:
            await world.wait("u-data", enums.VOLUME_PHASE_READY)
        await end_lifecycle(world.state, world.log)
    return world


async def test_a_volume_is_made_and_opened_by_a_service() -> None:
    world = restart(await install(CONFIG + KMS))
    async with world.run(), serving(world):
        await boot(world, CONFIG + KMS)
        status = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        assert (status.encryption_slot, list(status.encryption_failed_syncs)) == (0, [])


async def test_a_service_that_is_silent_holds_nothing_back(autojump_clock: MockClock) -> None:
    world = restart(await install(CONFIG + SMALL + SEALED_DATA))
    async with world.run():
        await boot(world, CONFIG + SMALL + SEALED_DATA + RAW)
        await world.add_disk()
        began = autojump_clock.current_time()
        await world.wait("r-zero", enums.VOLUME_PHASE_READY)
        assert autojump_clock.current_time() - began < 1
        status = await world.wait("u-data", enums.VOLUME_PHASE_PROVISIONED)
        assert status.error_message == f"waiting for {URL}"
        status = await world.wait("u-data", enums.VOLUME_PHASE_FAILED)
        text = f"u-data: /dev/vda7 can't be unlocked: slot 0 (kms): {URL}: no answer in {TIMEOUT:.0f} s"
        assert status.error_message == text
        assert autojump_clock.current_time() - began < SLOT_TIMEOUT + 2 * TIMEOUT
        found = await wait_for(world.state, kinds.DIAGNOSTIC, "volume-u-data", lambda _: True)
        assert list(found.spec.details) == [text]
        async with serving(world):
            await world.wait("u-data", enums.VOLUME_PHASE_READY)


@pytest.mark.parametrize(
    ("volume", "others"),
    [("IMAGECACHE", IMAGE_CACHE), ("ETCD", b"")],
)
async def test_a_volume_without_its_key_has_its_place(
    volume: str, others: bytes, autojump_clock: MockClock
) -> None:
    """EPHEMERAL takes the rest of the disk meanwhile."""
    del autojump_clock
    config = CONFIG + others + encrypt(volume, f"{{slot: 0, kms: {{endpoint: '{URL}'}}}}")
    config += b"provisioning: {minSize: 700MiB, maxSize: 700MiB}\n"
    world = World()
    async with world.run():
        await boot(world, config)
        await request_mount(world.state, volume)
        rest = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        status = await world.wait(volume, enums.VOLUME_PHASE_PROVISIONED)
        assert (status.location, rest.location) == ("/dev/vda6", "/dev/vda7")
        assert world.blocks.partitions[6].size == 700 * MIB
        async with serving(world):
            await world.wait(volume, enums.VOLUME_PHASE_READY)


async def test_the_next_slot_opens_a_volume_without_the_service(autojump_clock: MockClock) -> None:
    del autojump_clock
    world = restart(await install(CONFIG + BOTH))
    async with world.run():
        async with serving(world, error="connection refused\n\x1b[1m"):
            await boot(world, CONFIG + BOTH)
            status = await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
            assert status.encryption_slot == 1
            failed = await wait_for(
                world.state,
                kinds.VOLUME_STATUS,
                "EPHEMERAL",
                lambda found: bool(found.spec.encryption_failed_syncs),
            )
            (text,) = failed.spec.encryption_failed_syncs
            assert text == f"error updating key slot 0: {URL}: connection refused  [1m"
        async with serving(world):
            await wait_for(
                world.state,
                kinds.VOLUME_STATUS,
                "EPHEMERAL",
                lambda found: not found.spec.encryption_failed_syncs,
            )


async def test_a_key_of_a_service_is_added_to_a_volume_in_use(autojump_clock: MockClock) -> None:
    del autojump_clock
    static = encrypt("EPHEMERAL", "{slot: 1, static: {passphrase: x}}")
    world = World()
    async with world.run():
        await boot(world, CONFIG + static)
        await world.wait("EPHEMERAL", enums.VOLUME_PHASE_READY)
        await publish_config(world.state, ids.MACHINE_CONFIG, CONFIG + KMS)
        status = await wait_for(
            world.state,
            kinds.VOLUME_STATUS,
            "EPHEMERAL",
            lambda found: list(found.spec.configured_encryption_keys) == ["kms"],
        )
        assert not status.spec.encryption_failed_syncs, "a request is open"
        async with serving(world):
            await wait_for(
                world.state, kinds.VOLUME_STATUS, "EPHEMERAL", lambda found: found.spec.encryption_slot == 0
            )
        assert world.crypt.slots["/dev/vda6"].keys() == world.crypt.tokens["/dev/vda6"].keys() == {0}
