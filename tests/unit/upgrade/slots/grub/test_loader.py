"""GRUB's bytes on a disk, as firmware and GRUB's own first stage read them."""

import io
import struct
from pathlib import Path

import pytest

from talos.system.block.layout import BIOS, MIB, place_area
from talos.system.errors import UserError
from talos.upgrade.slots.grub.loader import (
    SECTOR,
    BootImages,
    check_bios,
    load_images,
    make_core,
    make_first_sector,
    write_bios,
)

PLACE = place_area(BIOS)


def make_images(core: int = 100_000) -> BootImages:
    return BootImages(boot=b"\xeb\x63" + b"B" * 510, core=b"C" * core, efi=b"MZ", cmdline="pti=on")


def test_the_first_sector_keeps_the_partition_table_and_its_signature() -> None:
    before = bytes(range(256)) * 2
    sector = make_first_sector(before, make_images().boot, 206848)
    assert sector[440:446] == before[440:446]
    assert sector[447:] == before[447:]
    assert sector[:2] == b"\xeb\x63"
    assert struct.unpack_from("<Q", sector, 0x5C) == (206848,)
    assert sector[0x66:0x68] == b"\x90\x90"


@pytest.mark.parametrize(("bootable", "flag"), [(False, 0), (True, 0x80)])
def test_the_protective_entry_is_bootable_only_on_request(bootable: bool, flag: int) -> None:
    assert make_first_sector(bytes(512), make_images().boot, 1, bootable=bootable)[446] == flag


def test_the_core_knows_where_its_other_sectors_are() -> None:
    core = make_core(b"C" * 1025, 2048)
    assert len(core) == 3 * SECTOR
    assert struct.unpack_from("<QHH", core, SECTOR - 12) == (2049, 2, 0x820)


def test_both_stages_are_written_where_they_find_each_other() -> None:
    disk = io.BytesIO(bytes(200 * MIB))
    write_bios(disk, make_images(), PLACE)
    data = disk.getvalue()
    (lba,) = struct.unpack_from("<Q", data, 0x5C)
    assert lba * SECTOR == PLACE.start
    assert data[PLACE.start : PLACE.start + 500] == b"C" * 500


def test_a_core_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError, match="BIOS: the boot loader has 1049088 bytes, the partition 1048576"):
        write_bios(io.BytesIO(bytes(MIB)), make_images(MIB + 1), PLACE)


def test_old_firmware_wants_small_sectors() -> None:
    assert check_bios(512) == ""
    assert "only UEFI boots it" in check_bios(4096)


def test_a_folder_without_a_boot_loader_is_named(tmp_path: Path) -> None:
    for name in ("boot.img", "core.img", "BOOTX64.EFI", "cmdline"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match="holds no boot loader"):
        load_images(tmp_path)
