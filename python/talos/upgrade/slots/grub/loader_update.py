"""GRUB on a disk that has a system, replaced by another version's.

Both slots are started by it and nothing stands in for it, so a power cut must leave the old one or the
new one: the new one is written beside the old one and read back, then one sector changes. For old firmware
BIOS has room for two cores, and the disk's first sector has the place of the one that is started. On EFI the
entries of both files are in one sector of their folder.
"""

import os
from collections.abc import Callable
from pathlib import Path

from talos.system.block.layout import BIOS, EFI, place_area
from talos.system.block.target import Target
from talos.system.block.wipe import drop_cache
from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.upgrade.slots.grub.loader import (
    EFI_PATH,
    SECTOR,
    BootImages,
    check_bios,
    find_core,
    is_bootable,
    make_core,
    make_first_sector,
)
from talos.upgrade.slots.grub.loader_trial import has_failed
from talos.upgrade.slots.vfat import take_name

NEW_NAMES = ("BOOTX64.NEW", "BOOTX64.NE2")
"""The new file until it gets its name. Short names have one entry each, of 32 bytes, in their folder."""


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
    place = place_area(EFI)
    with target.mount(place, read_only=True) as root:
        path = root / EFI_PATH
        before = _read(path)
        if before == images.efi:
            return
        if has_failed(root, images.efi):
            raise UserError("this machine's firmware did not start it", where=EFI.label)
        # One that reads like what is started may share its sectors, after a power cut at the end of this
        # function: it is left alone, since a file that is removed frees its sectors.
        name = next(name for name in NEW_NAMES if before is None or _read(path.with_name(name)) != before)
    with target.mount(place) as root:
        path = root / EFI_PATH
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(path.with_name(name), [images.efi])
    with target.mount(place, read_only=True) as root:
        if _read((root / EFI_PATH).with_name(name)) != images.efi:
            raise _make_broken(f"{EFI.label}/{name}", target)
    with target.mount(place) as root:
        path = root / EFI_PATH
        take_name(path.with_name(name), path)
    report(f"{EFI.label}/{EFI_PATH} is replaced")


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
            raise _make_broken(BIOS.label, target)
        _write(disk, sector, 0)
        if not is_current(place):
            raise _make_broken("the first sector", target)
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


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _make_broken(what: str, target: Target) -> UserError:
    return UserError(
        f"{what} reads differently from what was written", where=target.path, hint="the disk is broken"
    )
