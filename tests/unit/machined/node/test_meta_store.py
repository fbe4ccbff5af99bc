"""META on a device: reading, and writing that survives a power cut."""

import os
from pathlib import Path

import pytest
import trio

from talos.machined.node.meta_store import MetaStore
from talos.system.block.meta import COPY, MetaFullError, make_meta, parse_meta
from talos.system.errors import UserError


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "vda4"
    path.write_bytes(make_meta({10: b"ten"}).ljust(1 << 20, b"\0"))
    return path


def read(device: Path) -> dict[int, bytes]:
    data = device.read_bytes()
    assert len(data) == 1 << 20
    return parse_meta(data)


def read_copies(device: Path) -> bytes:
    return device.read_bytes()[: 2 * COPY]


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
    with pytest.raises(MetaFullError, match="there is room for"):
        await store.set(13, bytes(COPY))
    again = MetaStore()
    await again.load(str(device))
    assert again.values == {12: b"twelve"}


async def test_room_that_is_reserved_is_left(device: Path) -> None:
    store, half = MetaStore(), bytes(COPY // 2)
    await store.load(str(device))
    with pytest.raises(MetaFullError, match="there is room for"):
        await store.set(12, half, reserved={14: COPY // 2})
    await store.set(12, half, reserved={14: COPY // 4})
    assert read(device) == {10: b"ten", 12: half}, "nothing is kept in its place"


async def test_a_change_is_finished_after_its_call_was_cancelled(device: Path) -> None:
    store = MetaStore()
    await store.load(str(device))
    changes: list[dict[int, bytes]] = []
    store.listen(lambda: changes.append(dict(store.values)))
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.set(12, b"x")
    assert read_copies(device) == make_meta({10: b"ten", 12: b"x"})
    assert changes == [{10: b"ten", 12: b"x"}]
    assert store.device == str(device)


async def test_without_a_partition_nothing_can_be_deleted() -> None:
    with pytest.raises(UserError, match="there is no META yet"):
        await MetaStore().delete(10)


def damage(device: Path) -> None:
    device.write_bytes(b"\xff" * device.stat().st_size)


async def test_a_damaged_meta_counts_as_empty_and_is_written_anew(device: Path) -> None:
    damage(device)
    store = MetaStore()
    with pytest.raises(ValueError, match="no whole copy"):
        await store.load(str(device))
    assert store.values == {}
    assert read(device) == {}


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
