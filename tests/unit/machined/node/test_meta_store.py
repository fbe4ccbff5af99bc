"""META on a device: reading, and writing that survives a power cut."""

import os
from pathlib import Path

import pytest
import trio
import trio.testing
from tests.unit.system.block.test_meta import make_legacy

from talos.machined.node.meta_store import MetaStore, forget_state_keys
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


def write_legacy(device: Path) -> None:
    device.write_bytes(bytes((1 << 20) - 512) + make_legacy({6: b"A"}))


async def test_the_values_of_a_very_old_system_are_at_the_end_of_the_partition(device: Path) -> None:
    write_legacy(device)
    store = MetaStore()
    await store.load(str(device))
    assert store.values == {6: b"A"}


async def test_a_partition_is_waited_for(device: Path) -> None:
    store, located = MetaStore(), trio.Event()

    async def wait() -> None:
        await store.wait_until_located()
        located.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not located.is_set()
        await store.load(str(device))


async def test_the_keys_of_state_are_forgotten_where_there_is_meta(device: Path) -> None:
    store = MetaStore()
    await forget_state_keys(store)  # a container has none
    await store.load(str(device))
    await store.set(9, b"keys")
    await forget_state_keys(store)
    assert read(device) == {10: b"ten"}


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
    store = MetaStore()
    await store.load(str(device))
    damage(device)
    with pytest.raises(ValueError, match="no whole copy"):
        await store.load(str(device))
    assert store.values == {}
    assert read(device) == {}


async def test_meta_writes_one_copy_after_the_other(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MetaStore()
    await store.load(str(device))
    calls, used = list[str](), set[int]()
    write, flush = os.pwrite, os.fsync

    def note_write(descriptor: int, data: bytes, place: int) -> int:
        calls.append(f"write {len(data)} at {place}")
        used.add(descriptor)
        return write(descriptor, data, place)

    def note_flush(descriptor: int) -> None:
        calls.append("flush")
        flush(descriptor)

    monkeypatch.setattr(os, "pwrite", note_write)
    monkeypatch.setattr(os, "fsync", note_flush)
    await store.set(12, b"x")
    assert calls == [f"write {COPY} at 0", "flush", f"write {COPY} at {COPY}", "flush"]
    for descriptor in used:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
