"""Firmware's variables, and boot loaders of a few bytes."""

import struct
from pathlib import Path

from tests.unit.upgrade.slots.test_boot_entry import FEDORA

from talos.system.efi_variables import GLOBAL, EfiVariables

OLD, NEW, NEWER = b"MZ old", b"MZ new", b"MZ newer"


class Firmware:
    """Firmware with entries of its own, whose order has a number without an entry."""

    def __init__(self, folder: Path) -> None:
        self.variables = EfiVariables(folder)
        folder.mkdir()
        self.variables.make("Boot0000", FEDORA)
        self.variables.make("Boot0003", b"\1\0")
        self.variables.make("BootOrder", struct.pack("<3H", 3, 1, 0))
        (folder / f"Boot0002-{GLOBAL.replace('8', '9')}").write_bytes(b"another vendor's")

    def read(self) -> dict[str, bytes | None]:
        return {name: self.variables.read(name) for name in self.variables.list()}
