"""A disk with a boot loader for UEFI, and the firmware that starts it."""

from pathlib import Path

import pytest
from tests.unit.disks.install.world import FolderTarget
from tests.unit.upgrade.slots.firmware import OLD, Firmware
from tests.unit.upgrade.slots.test_boot_entry import make_table

from talos.system.block.layout import MIB
from talos.upgrade.slots.grub.loader import EFI_PATH


@pytest.fixture
def firmware(tmp_path: Path) -> Firmware:
    return Firmware(tmp_path / "efivars")


@pytest.fixture
def target(tmp_path: Path) -> FolderTarget:
    """A disk with a boot loader for UEFI."""
    target = FolderTarget(tmp_path / "disk", 2 * MIB)
    with target.open() as disk:
        disk.write(make_table(sector_size=512))
    path = target.root("EFI") / EFI_PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(OLD)
    return target
