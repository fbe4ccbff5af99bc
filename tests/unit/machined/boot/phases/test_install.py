"""An installation waits for the medium's images to be on the disk, where the config has a volume for them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from talos.api.definitions import block_pb2, cri_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.images.cache.places import DISK, ISO_CACHE
from talos.machined.boot.phases.install import COPY_TIMEOUT, Installation
from talos.resource import ids, kinds
from talos.resource.changes import modify, put
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError

CACHE = "---\napiVersion: v1alpha1\nkind: ImageCacheConfig\nlocal: {enabled: true}\n"
VOLUME = "---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: IMAGECACHE\n"


async def configure(*documents: str) -> MemoryState:
    state = MemoryState()
    text = "".join(("version: v1alpha1\n", *documents))
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))
    return state


async def wait(state: MemoryState) -> None:
    await Installation(cast("Any", SimpleNamespace(state=state))).wait_for_image_cache()


async def make_volume(state: MemoryState) -> None:
    ready = enums.VOLUME_PHASE_READY
    await modify(state, kinds.VOLUME_STATUS, "IMAGECACHE", lambda spec: setattr(spec, "phase", ready))


async def publish(state: MemoryState, copied: enums.CriImageCacheCopyStatus, *roots: object) -> None:
    def change(spec: cri_pb2.ImageCacheConfigSpec) -> None:
        spec.copy_status = copied
        spec.roots[:] = [str(root) for root in roots]

    await modify(state, *ids.IMAGE_CACHE_CONFIG, change)


@pytest.mark.parametrize("documents", [(), (CACHE,), (VOLUME,)])
async def test_nothing_is_waited_for_without_cache_and_volume(documents: tuple[str, ...]) -> None:
    await wait(await configure(*documents))


async def test_the_copy_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    state = await configure(CACHE, VOLUME)
    await publish(state, enums.IMAGE_CACHE_COPY_STATUS_SKIPPED, ISO_CACHE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, state)
        await make_volume(state)
        await trio.sleep(COPY_TIMEOUT / 2)
        assert nursery.child_tasks, "it was skipped as long as there was no volume"
        await publish(state, enums.IMAGE_CACHE_COPY_STATUS_READY, DISK, ISO_CACHE)
    assert trio.current_time() < COPY_TIMEOUT


async def test_a_medium_without_images_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    state = await configure(CACHE, VOLUME)
    await publish(state, enums.IMAGE_CACHE_COPY_STATUS_SKIPPED)
    await make_volume(state)
    await wait(state)


async def test_a_copy_that_does_not_end_fails_the_installation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    state = await configure(CACHE, VOLUME)
    await publish(state, enums.IMAGE_CACHE_COPY_STATUS_PENDING, ISO_CACHE)
    await make_volume(state)
    with pytest.raises(UserError, match=r"not on IMAGECACHE: it took over 1200 s .*more room"):
        await wait(state)


async def test_a_copy_that_fails_ends_the_installation(autojump_clock: trio.testing.MockClock) -> None:
    state = await configure(CACHE, VOLUME)
    await publish(state, enums.IMAGE_CACHE_COPY_STATUS_PENDING, ISO_CACHE)
    await make_volume(state)
    await put(
        state, kinds.DIAGNOSTIC, "image-cache", DiagnosticSpec(message="not copied", details=["no room"])
    )
    with pytest.raises(UserError, match="not on IMAGECACHE: no room"):
        await wait(state)
    assert trio.current_time() < 1


async def test_a_volume_that_fails_ends_the_installation(autojump_clock: trio.testing.MockClock) -> None:
    state = await configure(CACHE, VOLUME)
    failed = block_pb2.VolumeStatusSpec(phase=enums.VOLUME_PHASE_FAILED, error_message="no disk has 9 TB")
    await put(state, kinds.VOLUME_STATUS, "IMAGECACHE", failed)
    with pytest.raises(UserError, match="not on IMAGECACHE: no disk has 9 TB"):
        await wait(state)
    assert trio.current_time() < 1
