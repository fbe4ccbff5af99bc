"""META as resources."""

from pathlib import Path

import pytest
from tests.unit.machined.controllers.running import running

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.machined.controllers.runtime.meta import MetaController
from talos.machined.node.meta_store import MetaStore
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.block.meta import make_meta
from talos.system.logging import Log

LOG = Log(write=lambda _: None)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "vda4"
    path.write_bytes(make_meta({10: b"ten"}).ljust(1 << 20, b"\0"))
    return path


async def test_meta_as_resources(device: Path) -> None:
    state, store = MemoryState(), MetaStore()

    def ready(spec: block_pb2.VolumeStatusSpec) -> None:
        spec.phase = enums.VOLUME_PHASE_READY
        spec.location = str(device)

    async with running(state, MetaController(store, LOG)):
        await modify(state, kinds.VOLUME_STATUS, "META", ready)
        await wait_for(state, *ids.META_LOAD, lambda load: load.spec.done)
        assert (await state.get(kinds.META_KEY, "0x0a")).spec.value == "ten"
        await store.set(0x0C, b"twelve")
        await wait_for(state, kinds.META_KEY, "0x0c", lambda key: key.spec.value == "twelve")
        await store.delete(0x0A)
        async with state.watch(kinds.META_KEY, "0x0a") as events:
            async for batch in events:
                if any(event.type.name == "DESTROYED" for event in batch):
                    break


async def test_without_a_disk_meta_is_known_to_be_missing() -> None:
    state = MemoryState()

    def missing(spec: block_pb2.VolumeStatusSpec) -> None:
        spec.phase = enums.VOLUME_PHASE_MISSING

    async with running(state, MetaController(MetaStore(), LOG)):
        await modify(state, kinds.VOLUME_STATUS, "META", missing)
        await wait_for(state, *ids.META_LOAD, lambda load: load.spec.done)
