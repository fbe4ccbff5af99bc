"""Partition tables are read as sfdisk writes them, and what is none has no rows."""

from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.disks.raid.heads import SYSTEM, make_head

from talos.system.block.gpt import list_rows
from talos.system.block.layout import IMAGE_SIZE, MIB, make_table, place_areas
from talos.system.process import run_command


def test_what_sfdisk_writes_is_read(tmp_path: Path) -> None:
    image, places = tmp_path / "disk.img", place_areas()
    with image.open("wb") as file:
        file.truncate(IMAGE_SIZE)
    ids = {placed.area.label: UUID(int=placed.number) for placed in places}
    table = make_table(places, sector_size=512, ids=ids)
    run_command(["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", str(image)], input=table)
    with image.open("rb") as file:
        rows = list(list_rows(file.read(MIB), 512))
    assert [row.label for row in rows] == [placed.area.label for placed in places]
    for row, placed in zip(rows, places, strict=True):
        assert (row.number, row.start * 512, row.size * 512) == (
            placed.number,
            placed.start,
            placed.area.size,
        )
        assert row.id == ids[row.label]


@pytest.mark.parametrize("sector_size", [512, 4096])
def test_free_rows_are_left_out(sector_size: int) -> None:
    head = make_head("EFI", "", "BOOT", sector_size=sector_size)
    assert [(row.number, row.label) for row in list_rows(head, sector_size)] == [(1, "EFI"), (3, "BOOT")]
    assert not list(list_rows(head, 4608 - sector_size))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        bytes(1 << 20),
        b"\xff" * (1 << 20),
        make_head(*SYSTEM, mark=b"EFI PAST"),
        *(make_head(*SYSTEM)[:size] for size in range(0, 1100, 50)),
    ],
)
def test_anything_else_has_none(head: bytes) -> None:
    assert not list(list_rows(head, 512))


def test_a_count_beyond_the_bytes_ends_with_them() -> None:
    assert len(list(list_rows(make_head(*SYSTEM, count=(1 << 32) - 1), 512))) == len(SYSTEM)
