"""META as resources."""

from pathlib import Path

import pytest
import trio.testing
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


async def test_until_its_volume_is_found_meta_is_not_known_to_be_missing() -> None:
    state = MemoryState()

    def waiting(spec: block_pb2.VolumeStatusSpec) -> None:
        spec.phase = enums.VOLUME_PHASE_WAITING

    await modify(state, kinds.VOLUME_STATUS, "META", waiting)
    async with running(state, MetaController(MetaStore(), LOG)):
        await trio.testing.wait_all_tasks_blocked()
        assert await state.list(kinds.META_LOAD) == []


@pytest.mark.parametrize(
    ("content", "values", "reason"),
    [
        (make_meta({10: b"\xff"}), {"0x0a": "\ufffd"}, ""),
        (b"", {}, "META holds no whole copy of its values: they are lost, it is empty now"),
        (None, {}, "META can't be read"),
    ],
)
async def test_a_file_may_be_meta(
    tmp_path: Path, content: bytes | None, values: dict[str, str], reason: str
) -> None:
    state, store, lines, file = MemoryState(), MetaStore(), list[str](), tmp_path / "meta"
    if content is not None:
        file.write_bytes(content)
    async with running(state, MetaController(store, Log(write=lines.append), str(file))):
        await wait_for(state, *ids.META_LOAD, lambda load: load.spec.done)
        await trio.testing.wait_all_tasks_blocked()
        assert {key.id: key.spec.value for key in await state.list(kinds.META_KEY)} == values
        assert len(lines) == bool(reason)
        assert all(reason in line and str(file) in line for line in lines)
        if content is not None:
            await store.set(11, b"x")
            await wait_for(state, kinds.META_KEY, "0x0b", lambda key: key.spec.value == "x")
            assert store.values.keys() == {11, *(int(key, 16) for key in values)}
