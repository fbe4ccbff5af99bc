"""GRUB on a disk: for old firmware in the first sector and in BIOS, for UEFI as a file on EFI.

Offsets are those of GRUB's ``include/grub/i386/pc/boot.h`` and ``include/grub/offsets.h``; what is written is
what ``grub-install`` writes when it embeds an image into a BIOS boot partition.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from talos.system.block.layout import BIOS, Placed
from talos.system.errors import UserError

DIRECTORY = Path("/usr/lib/boot")
"""Where the system image has the boot loader, and the kernel's arguments of installed systems."""
FILES = ("boot.img", "core.img", "BOOTX64.EFI", "cmdline")
EFI_PATH = "EFI/BOOT/BOOTX64.EFI"
"""Within EFI: where firmware looks without a boot entry."""

SECTOR = 512
"""Bytes of a sector to old firmware, and to GRUB's first stage."""
_BOOT_CODE = 440
"""Bytes of the first sector that are code; the partition table's own follow."""
_PARAMETERS = slice(0x03, 0x5A)
"""A filesystem's parameters, if one is here: GRUB leaves them alone."""
_CORE_ADDRESS = 0x5C
_DRIVE_CHECK = 0x66
_NO_DRIVE_CHECK = b"\x90\x90"
"""Instead of a jump: the drive number of firmware that takes the disk for a floppy is not used."""
_FIRST_ENTRY = 446
_BOOTABLE = 0x80
_BLOCK_LIST = struct.Struct("<QHH")
"""Where the rest of the core is: first sector, sectors, segment in memory. Ends the core's first sector."""
_CORE_SEGMENT = 0x820


@dataclass(frozen=True, slots=True, kw_only=True)
class BootImages:
    """The boot loader's parts."""

    boot: bytes
    """The first sector."""
    core: bytes
    """What the first sector starts."""
    efi: bytes
    """What UEFI starts."""
    cmdline: str
    """The kernel's arguments."""


def load_images(directory: Path = DIRECTORY) -> BootImages:
    """The boot loader of the running system's image."""
    return make_images({name: (directory / name).read_bytes() for name in FILES}, str(directory))


def make_images(files: Mapping[str, bytes], where: str) -> BootImages:
    """The boot loader of these files; ValueError when they are none."""
    boot, core, efi, cmdline = (files[name] for name in FILES)
    if len(boot) != SECTOR or len(core) <= SECTOR:
        raise ValueError(f"{where} holds no boot loader")
    return BootImages(boot=boot, core=core, efi=efi, cmdline=cmdline.decode("ascii").strip())


def make_first_sector(before: bytes, boot: bytes, core_sector: int, *, bootable: bool = False) -> bytes:
    """The first sector with GRUB in it and the partition table of ``before``.

    ``bootable`` marks the protective entry, without which some old firmware doesn't try the disk.
    """
    sector = bytearray(before[:SECTOR])
    sector[:_BOOT_CODE] = boot[:_BOOT_CODE]
    sector[_PARAMETERS] = before[_PARAMETERS]
    sector[_CORE_ADDRESS : _CORE_ADDRESS + 8] = struct.pack("<Q", core_sector)
    sector[_DRIVE_CHECK : _DRIVE_CHECK + 2] = _NO_DRIVE_CHECK
    sector[_FIRST_ENTRY] = _BOOTABLE if bootable else 0
    return bytes(sector)


def find_core(sector: bytes) -> int:
    """The sector of the core that a first sector starts; any number where that is not GRUB's."""
    (place,) = struct.unpack_from("<Q", sector, _CORE_ADDRESS)
    return int(place)


def is_bootable(sector: bytes) -> bool:
    """Whether a first sector's protective entry is marked."""
    return sector[_FIRST_ENTRY] == _BOOTABLE


def make_core(core: bytes, first_sector: int) -> bytes:
    """The core image for the place where it will be: its first sector loads the others."""
    sectors = -(-len(core) // SECTOR)
    image = bytearray(core.ljust(sectors * SECTOR, b"\0"))
    entry = _BLOCK_LIST.pack(first_sector + 1, sectors - 1, _CORE_SEGMENT)
    image[SECTOR - _BLOCK_LIST.size : SECTOR] = entry
    return bytes(image)


def check_bios(sector_size: int) -> str:
    """Why old firmware can't start a disk with sectors of this size; empty when it can."""
    if sector_size == SECTOR:
        return ""
    return (
        f"its sectors have {sector_size} bytes, and firmware without UEFI reads {SECTOR}: only UEFI boots it"
    )


def write_bios(disk: BinaryIO, images: BootImages, bios: Placed, *, bootable: bool = False) -> None:
    """Write both stages for old firmware to a disk with a partition table and 512-byte sectors.

    The core is written first: a first sector must not start an incomplete core.
    """
    core_sector = bios.start // SECTOR
    core = make_core(images.core, core_sector)
    if len(core) > bios.area.size:
        raise UserError(
            f"the boot loader has {len(core)} bytes, the partition {bios.area.size}", where=BIOS.label
        )
    disk.seek(bios.start)
    disk.write(core)
    disk.flush()
    disk.seek(0)
    before = disk.read(SECTOR)
    disk.seek(0)
    disk.write(make_first_sector(before, images.boot, core_sector, bootable=bootable))
    disk.flush()
