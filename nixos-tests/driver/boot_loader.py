"""GRUB itself on a disk: what firmware starts of it, and a disk that an older release installed."""

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from driver.process import run
from driver.programs import Programs

EFI, BIOS, SIZE = 1 << 20, 101 << 20, 1 << 20
"""Where an installed disk has EFI and BIOS, and bytes of the latter."""
SECTOR = 512
_FILE = "::EFI/BOOT/BOOTX64.EFI"
_CORE_ADDRESS, _BLOCK_LIST = 0x5C, struct.Struct("<QHH")
"""In the disk's first sector, and at the end of the core's first one: GRUB's boot.h and diskboot.h."""


@dataclass(frozen=True, slots=True)
class BootLoader:
    """What is started: the core that the first sector names and where it is, and UEFI's file."""

    place: int
    core: bytes
    efi: bytes


def read_boot_loader(programs: Programs, disk: Path) -> BootLoader:
    """Read it from a plain file. AssertionError where there is none."""
    with disk.open("rb") as file:
        (number,) = struct.unpack_from("<Q", file.read(SECTOR), _CORE_ADDRESS)
        place = number * SECTOR
        assert BIOS <= place < BIOS + SIZE, f"the first sector starts what is at {place}"
        file.seek(place)
        first = file.read(SECTOR)
        _, more, _ = _BLOCK_LIST.unpack_from(first, SECTOR - _BLOCK_LIST.size)
        core = first + file.read(more * SECTOR)
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        run([*_mtools(programs, "mcopy", disk), _FILE, str(path)], env=_CHECK_NOTHING)
        return BootLoader(place, core, path.read_bytes())


def change_boot_loader(programs: Programs, disk: Path) -> BootLoader:
    """Change bytes of it that nothing reads, so that it is another release's and still starts."""
    found = read_boot_loader(programs, disk)
    assert found.core.endswith(bytes(16)), "the core has no padding"
    with disk.open("r+b") as file:
        file.seek(found.place + len(found.core) - 1)
        file.write(b"\xa5")
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(found.efi + b"an older release's")
        run([*_mtools(programs, "mcopy", disk), "-o", str(path), _FILE], env=_CHECK_NOTHING)
    aged = read_boot_loader(programs, disk)
    assert aged.core != found.core
    assert aged.efi != found.efi
    return aged


_CHECK_NOTHING = {**os.environ, "MTOOLS_SKIP_CHECK": "1"}


def _mtools(programs: Programs, name: str, disk: Path) -> list[str]:
    return [*programs.argv(name), "-i", f"{disk}@@{EFI}"]
