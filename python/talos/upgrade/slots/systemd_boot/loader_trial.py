"""A new systemd-boot tried once, and in the place of the present one when it has started a good system.

The one that firmware goes on with where the new one does not start is the old one, which starts the slot that
is on trial as well: a boot loader that fails costs no upgrade. Which of the two it was is in a variable.
"""

import io
from collections.abc import Callable
from contextlib import suppress

from talos.system.block.layout import UKI_INSTALLED, place_areas
from talos.system.block.target import Target
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.upgrade.slots.efi_loader import replace_loader
from talos.upgrade.slots.loader_trial import BootLoaderTrial, LoaderPlace
from talos.upgrade.slots.systemd_boot.entry import LOADER_PATH
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.partition import EfiPartition

(_EFI, _) = place_areas(UKI_INSTALLED)
PLACE = LoaderPlace(
    placed=_EFI,
    path=LOADER_PATH,
    name="SDBOOT.EFI",
    untried="and does not replace the present one",
)
"""Its name is in capitals and short, as vfat has it in one entry."""
NOT_STARTED = "the upgrade's boot loader did not come up and is left out from now on"


def boot_once(
    partition: EfiPartition, trial: BootLoaderTrial, slot: str, loader: bytes, report: Callable[[str], None]
) -> None:
    """Have a slot, or the default, started the next time and only then, by this loader if it can be tried.

    The boot loader comes first: a power cut before the slot is named starts the default by it.
    """
    partition.boot_once("")
    if loader and slot:
        trial.start(loader, report)
    else:
        trial.end()
    if slot:
        partition.boot_once(slot)


def keep_loader(target: Target, firmware: Firmware, report: Callable[[str], None]) -> None:
    """Have the boot loader on trial, if it has started this system, take the present one's place.

    Only in a boot that was to be started by it. What is left of the trial is removed in any case. UserError,
    OSError: the present one is what it was.
    """
    trial = BootLoaderTrial(target, PLACE, firmware.settings)
    if not trial.is_there:
        return
    if firmware.loader_path.lower() != PLACE.trial_path.lower():
        report(NOT_STARTED)
        trial.end(has_failed=True)
        return
    try:
        efi = trial.read()
        firmware.check(Program(io.BytesIO(efi), len(efi)), f"{_EFI.area.label}/{PLACE.trial_path}")
        replace_loader(target, PLACE.placed, PLACE.path, efi, report)
    except (UserError, OSError):
        with suppress(UserError, OSError):
            trial.end()
        raise
    trial.end()
