"""Boot entries of firmware: bytes that other systems wrote, and what is none of a file on a partition."""

from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.disks.install.world import FolderTarget

from talos.system.block.layout import EFI, MIB, place_area
from talos.system.errors import UserError
from talos.upgrade.slots.boot_entry import (
    BootEntry,
    Partition,
    format_entry,
    parse_entry,
    read_partition,
)

FEDORA = bytes.fromhex(
    "01 00 00 00 64 00 46 00 65 00 64 00 6f 00 72 00 61 00 00 00 04 01 2a 00 01 00 00 00 00 08 00 00"
    "00 00 00 00 00 60 09 00 00 00 00 00 5b 90 b2 68 3e df b3 4f 80 fa 49 d1 e7 73 aa 33 02 02 04 04"
    "36 00 5c 00 45 00 46 00 49 00 5c 00 66 00 65 00 64 00 6f 00 72 00 61 00 5c 00 73 00 68 00 69 00"
    "6d 00 61 00 61 00 36 00 34 00 2e 00 65 00 66 00 69 00 00 00 7f ff 04 00"
)
"""``Boot0001`` of a board with Fedora, in TI's article on protected variables."""
ENTRY = BootEntry(
    description="Fedora",
    partition=Partition(number=1, start=0x800, size=0x96000, id=UUID("68b2905b-df3e-4fb3-80fa-49d1e773aa33")),
    path="/EFI/fedora/shimaa64.efi",
)
MBR = FEDORA.replace(b"\x02\x02\x04\x04", b"\x01\x01\x04\x04")
"""Of a partition without an id, as that board has one, too."""
BY_NAME = bytes.fromhex(
    "01 00 00 00 46 00 6d 00 6d 00 63 00 20 00 30 00 00 00 01 04 1c 00 b9 73 1d e6 84 a3 cc 4a ae ab"
    "82 e8 28 f3 62 8b 00 00 00 00 00 00 00 00 01 04 1c 00 b9 73 1d e6 84 a3 cc 4a ae ab 82 e8 28 f3"
    "62 8b 6d 00 00 00 00 00 00 00 03 1d 05 00 00 03 1d 05 00 00 7f ff 04 00 4e ac 08 81 11 9f 59 4d"
    "85 0e e2 1a 52 2c 59 b2"
)
"""``Boot0000`` of the same board, for a whole device, which its firmware made."""
PLACE = place_area(EFI)


def test_an_entry_is_what_others_write() -> None:
    assert format_entry(ENTRY) == FEDORA
    assert parse_entry(FEDORA) == ENTRY


def test_data_for_the_program_may_follow() -> None:
    assert parse_entry(FEDORA + b"RC") == ENTRY


@pytest.mark.parametrize("data", [b"", MBR, BY_NAME, *(FEDORA[:end] for end in range(0, len(FEDORA), 3))])
def test_any_other_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_entry(data)


def make_table(*, sector_size: int, start: int = PLACE.start, mark: bytes = b"EFI PART") -> bytes:
    """The first sectors of a disk, with one partition."""
    header = mark + b"\0" * 64 + (2).to_bytes(8, "little") + (128).to_bytes(4, "little")
    header += (128).to_bytes(4, "little")
    first, last = start // sector_size, (start + EFI.size) // sector_size - 1
    entry = UUID(EFI.type_uuid).bytes_le + ENTRY.partition.id.bytes_le
    entry += first.to_bytes(8, "little") + last.to_bytes(8, "little")
    return b"\0" * sector_size + header.ljust(sector_size, b"\0") + entry


@pytest.mark.parametrize("sector_size", [512, 4096])
def test_a_partition_is_found_in_the_table(tmp_path: Path, sector_size: int) -> None:
    target = FolderTarget(tmp_path, 2 * MIB, sector_size)
    with target.open() as disk:
        disk.write(make_table(sector_size=sector_size))
    found = read_partition(target, PLACE)
    assert (found.number, found.id) == (1, ENTRY.partition.id)
    assert (found.start * sector_size, found.size * sector_size) == (PLACE.start, EFI.size)


@pytest.mark.parametrize(
    "table",
    [b"", make_table(sector_size=512, start=4 * MIB), make_table(sector_size=512, mark=b"EFI?PART")],
)
def test_another_table_is_refused(tmp_path: Path, table: bytes) -> None:
    target = FolderTarget(tmp_path, 2 * MIB)
    with target.open() as disk:
        disk.write(table)
    with pytest.raises(UserError, match="the partition table has no EFI at its place"):
        read_partition(target, PLACE)
