"""GRUB replaced on a disk with a system: after a power cut there is one that starts; others are left."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.disks.install.world import BOOT, FolderTarget

from talos.system.block.layout import BIOS, MIB, place_area
from talos.system.errors import UserError
from talos.upgrade.slots import efi_loader, vfat
from talos.upgrade.slots.efi_loader import NEW_NAMES
from talos.upgrade.slots.grub import loader_update as module
from talos.upgrade.slots.grub.loader import (
    EFI_PATH,
    SECTOR,
    BootImages,
    find_core,
    is_bootable,
    make_core,
    write_bios,
)
from talos.upgrade.slots.grub.loader_update import update_boot_loader

PLACE = place_area(BIOS)
NEW = replace(BOOT, boot=b"\xeb\x63" + b"N" * 510, core=b"n" * 170_151, efi=b"MZ new")
TABLE = b"\0" * 440 + bytes(range(6)) + b"\x80" + b"\xee" * 63 + b"\x55\xaa"


@pytest.fixture
def target(tmp_path: Path) -> FolderTarget:
    """A disk with GRUB on it, whose protective entry is marked."""
    target = FolderTarget(tmp_path, 104 * MIB)
    with target.open() as disk:
        disk.write(TABLE)
        disk.flush()
        write_bios(disk, BOOT, PLACE, bootable=True)
    path = target.root("EFI") / EFI_PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(BOOT.efi)
    return target


def update(target: FolderTarget, images: BootImages = NEW) -> list[str]:
    lines: list[str] = []
    update_boot_loader(target, images, lines.append)
    return lines


def started(target: FolderTarget) -> BootImages | None:
    """What firmware starts of either kind; None when that is no whole boot loader."""
    sector = target.read(0, SECTOR)
    place = find_core(sector) * SECTOR
    efi = (target.root("EFI") / EFI_PATH).read_bytes()
    for images in (BOOT, NEW):
        core = make_core(images.core, place // SECTOR)
        if sector[104:440] == images.boot[104:440] and target.read(place, len(core)) == core:
            return replace(images, efi=efi) if efi in (BOOT.efi, NEW.efi) else None
    return None


def test_both_are_replaced_and_the_next_time_the_other_half_is_written(target: FolderTarget) -> None:
    assert update(target) == ["EFI/EFI/BOOT/BOOTX64.EFI is replaced", "the core in BIOS is replaced"]
    assert started(target) == NEW
    sector = target.read(0, SECTOR)
    assert find_core(sector) * SECTOR == PLACE.start + PLACE.area.size // 2
    assert sector[440:] == TABLE[440:], "the partition table and its mark are what they were"
    assert update(target, BOOT)
    assert started(target) == BOOT
    assert find_core(target.read(0, SECTOR)) * SECTOR == PLACE.start
    assert is_bootable(target.read(0, SECTOR))
    assert [path.name for path in (target.root("EFI") / EFI_PATH).parent.iterdir()] == ["BOOTX64.EFI"]


def test_what_is_the_same_is_only_read(target: FolderTarget) -> None:
    before = Path(target.path).read_bytes()
    assert update(target, BOOT) == []
    assert target.mounted == ["EFI ro"]
    assert Path(target.path).read_bytes() == before


def test_a_disk_with_large_sectors_has_none_for_old_firmware(target: FolderTarget) -> None:
    target.sector_size = 4096
    before = Path(target.path).read_bytes()
    assert update(target) == ["EFI/EFI/BOOT/BOOTX64.EFI is replaced"]
    assert Path(target.path).read_bytes() == before


def test_another_boot_loader_in_the_first_sector_is_left_alone(target: FolderTarget) -> None:
    with target.open() as disk:
        disk.write(b"\x33\xc0" * 220)
    before = Path(target.path).read_bytes()
    with pytest.raises(UserError, match="the first sector starts none of the cores in BIOS"):
        update(target)
    assert Path(target.path).read_bytes() == before
    assert (target.root("EFI") / EFI_PATH).read_bytes() == NEW.efi, "the other kind is replaced"


def test_a_lost_folder_for_uefi_is_no_reason_to_leave_the_other_kind(target: FolderTarget) -> None:
    (target.root("EFI") / EFI_PATH).unlink()
    (target.root("EFI") / EFI_PATH).parent.rmdir()
    (target.root("EFI") / EFI_PATH).parent.write_text("a file")
    with pytest.raises(UserError, match=r"boot loader: .*EFI/BOOT"):
        update(target)
    assert find_core(target.read(0, SECTOR)) * SECTOR > PLACE.start


def test_a_core_that_does_not_fit_beside_the_old_one_is_refused(target: FolderTarget) -> None:
    before = Path(target.path).read_bytes()
    with pytest.raises(UserError, match="BIOS: the boot loader has 524800 bytes, beside the old one"):
        update(target, replace(NEW, core=b"n" * (MIB // 2 + 1)))
    assert Path(target.path).read_bytes() == before


class PowerCutError(Exception):
    """The power is cut."""


class Power:
    """Ends at a call, which is done by half where it writes more than a sector."""

    def __init__(self, calls: int, *, is_half: bool) -> None:
        self._left, self._is_half = calls, is_half

    def use(self) -> bool:
        self._left -= 1
        return self._left != 0

    def guard[**P, R](self, call: Callable[P, R]) -> Callable[P, R]:
        def guarded(*args: P.args, **more: P.kwargs) -> R:
            if not self.use():
                raise PowerCutError
            return call(*args, **more)

        return guarded

    def write(self, disk: int, data: bytes, place: int) -> int:
        if self.use():
            return WRITE(disk, data, place)
        if self._is_half and len(data) > SECTOR:
            WRITE(disk, data[: len(data) // 2], place)
        raise PowerCutError


WRITE = os.pwrite
CALLS = 10
"""Points at which the power is cut."""


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize("point", range(1, CALLS + 2))
def test_a_power_cut_leaves_the_old_one_or_the_new_one(
    target: FolderTarget, monkeypatch: pytest.MonkeyPatch, point: int, is_half: bool
) -> None:
    power = Power(point, is_half=is_half)
    with monkeypatch.context() as patched:
        for owner, name in ((efi_loader, "replace_durably"), (vfat, "flush_folder")):
            patched.setattr(owner, name, power.guard(getattr(owner, name)))
        patched.setattr(module.os, "fsync", power.guard(os.fsync))
        patched.setattr(module.os, "pwrite", power.write)
        if point > CALLS:
            update(target)
        else:
            with pytest.raises(PowerCutError):
                update(target)
    assert started(target), "nothing starts"
    update(target)
    assert started(target) == NEW


def test_a_file_that_may_share_its_sectors_with_what_is_started_stays(target: FolderTarget) -> None:
    folder = (target.root("EFI") / EFI_PATH).parent
    (folder / NEW_NAMES[0]).write_bytes(BOOT.efi)
    update(target)
    assert (folder / NEW_NAMES[0]).read_bytes() == BOOT.efi
    assert started(target) == NEW


def test_one_that_was_cut_while_it_was_written_is_written_anew(target: FolderTarget) -> None:
    folder = (target.root("EFI") / EFI_PATH).parent
    (folder / NEW_NAMES[0]).write_bytes(b"M")
    update(target)
    assert [path.name for path in folder.iterdir()] == ["BOOTX64.EFI"]
    assert started(target) == NEW


def test_a_disk_that_reads_differently_keeps_what_is_started(
    target: FolderTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(path: Path, pieces: object) -> None:
        del pieces
        path.write_bytes(b"MZ lost")

    def forget(disk: int, data: bytes, place: int) -> int:
        del disk, place
        return len(data)

    monkeypatch.setattr(efi_loader, "replace_durably", lose)
    monkeypatch.setattr(module.os, "pwrite", forget)
    with pytest.raises(UserError, match=r"EFI/BOOTX64\.NEW reads differently .*; .*BIOS reads differently"):
        update(target)
    assert started(target) == BOOT


def test_a_first_sector_that_is_not_written_is_named(
    target: FolderTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(disk: int, data: bytes, place: int) -> int:
        return WRITE(disk, data, place) if place else len(data)

    monkeypatch.setattr(module.os, "pwrite", write)
    with pytest.raises(UserError, match="the first sector reads differently from what was written"):
        update(target)
    assert started(target) == replace(BOOT, efi=NEW.efi)
