"""A file is read from each half of a mirror, at the place that the filesystem has for it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.disks.raid.memory_mdadm import FAULTY, make_array, make_member
from tests.unit.udevd.fake_sysfs import FakeSysfs

from talos.system.block import copies as module
from talos.system.block.copies import Extent, list_extents, read_copies
from talos.system.block.md import Array, Member
from talos.system.block.sysfs import Sysfs

START = 8192


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "grubenv"
    file.write_bytes(b"through the array")
    return file


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(*members: Member, extents: tuple[Extent, ...] = (Extent(place=4096, size=64),)) -> None:
        def read_arrays(_: Sysfs) -> list[Array]:
            return [make_array(*members)]

        def list_extents(_: Path) -> tuple[Extent, ...]:
            return extents

        monkeypatch.setattr(module, "read_arrays", read_arrays)
        monkeypatch.setattr(module, "list_extents", list_extents)

    return use


def make_half(folder: Path, name: str, data: bytes, offset: int = 0) -> Member:
    path = folder / name
    path.write_bytes((bytes(offset + START + 4096) + data).ljust(64 << 10, b"\xff"))
    return Member(device=str(path), states=frozenset({"in_sync"}), slot=0, is_present=True, offset=offset)


def test_each_half_has_its_own(tmp_path: Path, file: Path, use: Callable[..., None]) -> None:
    use(make_half(tmp_path, "a", b"1" * 17), make_half(tmp_path, "b", b"2" * 17, offset=1024))
    assert read_copies("/dev/md0", START, file) == [b"1" * 17, b"2" * 17]
    assert read_copies("/dev/md1", START, file) == [b"through the array"]


def test_a_file_in_parts(tmp_path: Path, file: Path, use: Callable[..., None]) -> None:
    half = make_half(tmp_path, "a", b"one-then-another")
    use(half, extents=(Extent(place=4105, size=7), Extent(place=4096, size=9)))
    assert read_copies("/dev/md0", START, file) == [b"anotherone-then-"]


def test_what_can_not_be_read_is_left_out(tmp_path: Path, file: Path, use: Callable[..., None]) -> None:
    gone = Member(device=str(tmp_path / "no"), states=frozenset({"in_sync"}), slot=1, is_present=True)
    stale = make_member("vdb", 1, FAULTY)
    use(gone, stale, make_half(tmp_path, "a", b"1" * 17))
    assert read_copies("/dev/md0", START, file) == [b"1" * 17]
    use(gone)
    assert read_copies("/dev/md0", START, file) == []
    use(make_half(tmp_path, "a", b"1" * 17), extents=())
    assert read_copies("/dev/md0", START, file) == []


def test_a_disk_that_is_no_array(tmp_path: Path, file: Path) -> None:
    assert read_copies("/dev/vda", START, file, FakeSysfs(tmp_path / "sys").sysfs) == [b"through the array"]


def test_extents_are_those_of_the_filesystem(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 10_000)
    extents = list_extents(path)
    if not extents:
        pytest.skip("this filesystem shows none")
    assert sum(extent.size for extent in extents) >= 10_000
    assert all(extent.place > 0 for extent in extents)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 20)
    assert not list_extents(tmp_path / "sparse")
