"""A new GRUB tried once on UEFI, with the slot that it is to start.

The old one, which firmware goes on with where the new one does not start, does not start the slot that is on
trial (:mod:`talos.upgrade.slots.grub.environment`), which is how the machine notices.
"""

from collections.abc import Callable

from talos.system.block.layout import EFI, place_area
from talos.upgrade.slots.grub.boot import BootPartition
from talos.upgrade.slots.grub.environment import TRIAL_LOADER
from talos.upgrade.slots.grub.loader import EFI_PATH
from talos.upgrade.slots.loader_trial import BootLoaderTrial, LoaderPlace

PLACE = LoaderPlace(
    placed=place_area(EFI),
    path=EFI_PATH,
    name=TRIAL_LOADER,
    untried="before it replaces the present one",
)


def boot_once(
    slots: BootPartition, trial: BootLoaderTrial, slot: str, efi: bytes, report: Callable[[str], None]
) -> None:
    """Have a slot, or the default, booted the next time and only then, by this GRUB if it can be tried.

    Firmware's variables come first: a power cut before GRUB's environment is written boots the default.
    """
    if not efi:
        slots.boot_once(slot)
        trial.end()
        return
    if slots.read().environment.waits_for_trial_loader:
        slots.boot_once("")  # before the GRUB that it waits for is gone
    slots.boot_once(slot, by_trial_loader=trial.start(efi, report))


def end_trial(slots: BootPartition, trial: BootLoaderTrial, *, has_failed: bool) -> None:
    """Remove what a trial that is over has left; ``has_failed`` is whether GRUB's environment still waits."""
    trial.end(has_failed=has_failed)
    if has_failed:
        slots.boot_once("")
