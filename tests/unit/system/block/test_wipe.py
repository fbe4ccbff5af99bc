"""Erasing a device."""

from pathlib import Path

from talos.system.block.wipe import WipeMethod, wipe_device

MIB = 1 << 20


def make_file(path: Path, size: int = 40 * MIB) -> Path:
    path.write_bytes(b"\xaa" * size)
    return path


def is_zero(path: Path, offset: int, size: int = MIB) -> bool:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size) == bytes(size)


def test_thorough_wiping_reports_how_far_it_is(tmp_path: Path) -> None:
    path = make_file(tmp_path / "disk", 3 * MIB)
    reports: list[tuple[int, int]] = []
    wipe_device(str(path), WipeMethod.ZEROES, report=lambda done, size: reports.append((done, size)))
    assert is_zero(path, 0, 3 * MIB)
    assert reports[-1] == (3 * MIB, 3 * MIB)
