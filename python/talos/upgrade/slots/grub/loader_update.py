"""GRUB on a disk that has a system, replaced by another version's.

Both slots are started by it and nothing stands in for it, so a power cut must leave the old one or the
new one: the new one is written beside the old one and read back, then one sector changes. For old firmware
BIOS has room for two cores, and the disk's first sector has the place of the one that is started. On EFI the
entries of both files are in one sector of their folder.
"""

import os
from collections.abc import Callable

from talos.system.block.layout import BIOS, place_area
from talos.system.block.target import Target
from talos.system.block.wipe import drop_cache
from talos.system.errors import UserError
from talos.upgrade.slots.efi_loader import make_broken, replace_loader
from talos.upgrade.slots.grub.loader import (
    SECTOR,
    BootImages,
    check_bios,
    find_core,
    is_bootable,
    make_core,
    make_first_sector,
)
from talos.upgrade.slots.grub.loader_trial import PLACE


def update_boot_loader(target: Target, images: BootImages, report: Callable[[str], None]) -> None:
    """Replace what differs from these images. Blocks; UserError, after which a part is what it was."""
    problems: list[str] = []
    for update in (_update_efi, _update_bios):
        try:
            update(target, images, report)
        except (UserError, OSError) as error:
            problems.append(str(error))
    if problems:
        raise UserError("; ".join(problems), where="boot loader")


def _update_efi(target: Target, images: BootImages, report: Callable[[str], None]) -> None:
    replace_loader(target, PLACE.placed, PLACE.path, images.efi, report)


def _update_bios(target: Target, images: BootImages, report: Callable[[str], None]) -> None:
    if check_bios(target.sector_size):
        return
    bios = place_area(BIOS)
    half = bios.area.size // 2
    with target.open() as file:
        disk = file.fileno()
        before = os.pread(disk, SECTOR, 0)
        started = find_core(before) * SECTOR
        if started not in (bios.start, bios.start + half):
            raise UserError(
                f"the first sector starts none of the cores in {BIOS.label}",
                where=target.path,
                hint="install the system again, or leave that other boot loader where it is",
            )

        def is_current(place: int) -> bool:
            sector, core = _make(images, before, place)
            return os.pread(disk, SECTOR, 0) == sector and os.pread(disk, len(core), place) == core

        if is_current(started):
            return
        place = bios.start + half if started == bios.start else bios.start
        sector, core = _make(images, before, place)
        if len(core) > half:
            raise UserError(
                f"the boot loader has {len(core)} bytes, beside the old one there are {half}",
                where=BIOS.label,
                hint="install the system again",
            )
        _write(disk, core, place)
        if os.pread(disk, len(core), place) != core:
            raise make_broken(BIOS.label, target)
        _write(disk, sector, 0)
        if not is_current(place):
            raise make_broken("the first sector", target)
    report(f"the core in {BIOS.label} is replaced")


def _make(images: BootImages, before: bytes, place: int) -> tuple[bytes, bytes]:
    """The first sector and the core for a place in bytes."""
    number = place // SECTOR
    sector = make_first_sector(before, images.boot, number, bootable=is_bootable(before))
    return sector, make_core(images.core, number)


def _write(disk: int, data: bytes, place: int) -> None:
    """Write, and let what is read next come from the disk."""
    os.pwrite(disk, data, place)
    os.fsync(disk)
    drop_cache(disk)
