"""What is kept on disks beside files of services: META, the node's id, the config."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.machined.controllers.cluster.identity import NodeIdentityController
from talos.machined.controllers.config.persistence import PersistenceController
from talos.machined.controllers.runtime.meta import MetaController
from talos.machined.node.config_store import publish_config
from talos.machined.node.identity import Identity, keep_identity, make_identity
from talos.machined.node.meta_store import MetaStore
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.controller.controller import Controller
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.block.meta import COPY, make_meta, parse_meta
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.mounts import KernelMounts, MountPoint

LOG = Log(write=lambda _: None)


@asynccontextmanager
async def running(state: MemoryState, *controllers: Controller) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, controllers)
        yield
        nursery.cancel_scope.cancel()


async def mount_state(state: MemoryState, folder: Path) -> None:
    def change(spec: block_pb2.VolumeMountStatusSpec) -> None:
        spec.volume_id = "STATE"
        spec.target = str(folder)

    await modify(state, kinds.VOLUME_MOUNT_STATUS, "sequencer-STATE", change)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "vda4"
    path.write_bytes(make_meta({10: b"ten"}).ljust(1 << 20, b"\0"))
    return path


def read(device: Path) -> dict[int, bytes]:
    data = device.read_bytes()
    assert len(data) == 1 << 20
    return parse_meta(data)


def check_folder(folder: Path) -> None:
    (file,) = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("config.yaml", 0o600)


async def test_meta_is_read_and_written(device: Path) -> None:
    store = MetaStore()
    with pytest.raises(UserError, match="there is no META yet"):
        await store.set(12, b"x")
    await store.load(str(device))
    assert await store.get(10) == b"ten"
    await store.set(12, b"twelve")
    assert read(device) == {10: b"ten", 12: b"twelve"}
    assert await store.delete(10)
    assert not await store.delete(10)
    with pytest.raises(ValueError, match="there is room for"):
        await store.set(13, bytes(COPY))
    again = MetaStore()
    await again.load(str(device))
    assert again.values == {12: b"twelve"}


async def test_meta_writes_one_copy_after_the_other(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MetaStore()
    await store.load(str(device))
    calls: list[str] = []
    write, flush = os.pwrite, os.fsync

    def note_write(descriptor: int, data: bytes, place: int) -> int:
        calls.append(f"write {place}")
        return write(descriptor, data, place)

    def note_flush(descriptor: int) -> None:
        calls.append("flush")
        flush(descriptor)

    monkeypatch.setattr(os, "pwrite", note_write)
    monkeypatch.setattr(os, "fsync", note_flush)
    await store.set(12, b"x")
    assert calls == ["write 0", "flush", f"write {COPY}", "flush"]


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


@pytest.mark.parametrize("kept", [False, True])
async def test_the_id_in_state_counts(tmp_path: Path, *, kept: bool) -> None:
    state, mine, theirs = MemoryState(), make_identity(), make_identity()
    shown: list[Identity] = []
    if kept:
        keep_identity(tmp_path, theirs)
    async with running(state, NodeIdentityController(mine, shown.append, LOG)):
        await wait_for(state, *ids.IDENTITY, lambda found: found.spec.node_id == mine.node_id)
        await mount_state(state, tmp_path)
        wanted = theirs if kept else mine
        await wait_for(state, *ids.IDENTITY, lambda found: found.spec.node_id == wanted.node_id)
        file = trio.Path(tmp_path / "node-identity.yaml")
        while not await file.exists():  # noqa: ASYNC110 - a file tells nobody
            await trio.sleep(0.01)
    assert keep_identity(tmp_path, make_identity()) == wanted
    assert (await file.stat()).st_mode & 0o777 == 0o600
    assert shown == ([theirs] if kept else [])


async def test_an_id_that_can_not_be_read_is_left_there(tmp_path: Path) -> None:
    (tmp_path / "node-identity.yaml").write_text("nodeId: '!!'\n", encoding="ascii")
    with pytest.raises(ValueError, match=r"node-identity\.yaml: no node id"):
        keep_identity(tmp_path, make_identity())
    lines: list[str] = []
    state, mine = MemoryState(), make_identity()
    async with running(state, NodeIdentityController(mine, lambda _: None, Log(write=lines.append))):
        await mount_state(state, tmp_path)
        with trio.fail_after(5):
            while not lines:  # noqa: ASYNC110 - a log tells nobody
                await trio.sleep(0.01)
    assert "can't be read" in lines[0]
    assert (tmp_path / "node-identity.yaml").read_text(encoding="ascii") == "nodeId: '!!'\n"


async def wait_for_text(path: Path, text: bytes) -> None:
    with trio.fail_after(5):
        while not path.exists() or path.read_bytes() != text:  # noqa: ASYNC110,ASYNC240 - a file tells nobody
            await trio.sleep(0.01)


async def test_the_config_reaches_state_when_that_comes(tmp_path: Path) -> None:
    state, file = MemoryState(), tmp_path / "config.yaml"
    async with running(state, PersistenceController(LOG)):
        await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, b"first: 1\n")
        await mount_state(state, tmp_path)
        await wait_for_text(file, b"first: 1\n")
        await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, b"second: 2\n")
        await wait_for_text(file, b"second: 2\n")
    check_folder(tmp_path)


@pytest.mark.root
async def test_a_full_state_keeps_the_old_config_until_there_is_room(tmp_path: Path) -> None:
    mounts, state, folder = KernelMounts(), MemoryState(), tmp_path / "state"
    mounts.mount(MountPoint(source="tmpfs", target=str(folder), type="tmpfs", data="size=64k,mode=0700"))
    try:
        async with running(state, PersistenceController(LOG)):
            await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, b"old: 1\n")
            await mount_state(state, folder)
            await wait_for_text(folder / "config.yaml", b"old: 1\n")
            (folder / "ballast").write_bytes(bytes(56 * 1024))
            new = b"new: " + b"x" * 20000 + b"\n"
            await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, new)
            await trio.sleep(0.3)
            assert (folder / "config.yaml").read_bytes() == b"old: 1\n"
            assert sorted(path.name for path in folder.iterdir()) == ["ballast", "config.yaml"]
            (folder / "ballast").unlink()
            await wait_for_text(folder / "config.yaml", new)
    finally:
        mounts.unmount(str(folder))
