"""A new GRUB tried once on UEFI: it lies beside the one that is started, and firmware's BootNext leads to it.

Firmware deletes BootNext before it follows it (UEFI specification 2.10, section 3.1.1), so that a GRUB that
does not start, or hangs, is followed by the old one. That one does not start the slot that is on trial
(:mod:`talos.upgrade.slots.grub.environment`), which is how the machine notices.

Everything that a trial leaves is found by its boot entry, so the entry is the last to go. Other entries, and
the order of all, are never touched.
"""

import hashlib
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from talos.system.block.layout import EFI, place_area
from talos.system.block.target import Target
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.upgrade.slots.grub.boot import BootPartition
from talos.upgrade.slots.grub.boot_entry import BootEntry, format_entry, parse_entry, read_partition
from talos.upgrade.slots.grub.environment import TRIAL_LOADER
from talos.upgrade.slots.grub.loader import EFI_PATH

FOLDER = "EFI/TALOS"
"""Within EFI. Its name is in no firmware's list of places to look."""
DESCRIPTION = "Talos upgrade"
FAILED = "FAILED"
"""The digest of a GRUB that did not start here."""
_NEXT, _ORDER = "BootNext", "BootOrder"
_NAME = re.compile(r"Boot([0-9A-F]{4})")
_NUMBER = struct.Struct("<H")
_NUMBERS = 1 << 16
_PLACE = place_area(EFI)


def has_failed(root: Path, efi: bytes) -> bool:
    """Whether EFI, which is at ``root``, has the mark of this GRUB."""
    path = root / FOLDER / FAILED
    return path.is_file() and path.read_bytes()[:64] == _make_digest(efi)


@dataclass(frozen=True, slots=True)
class BootLoaderTrial:
    """Trials on a disk. All methods block."""

    target: Target
    variables: EfiVariables = field(default_factory=EfiVariables)

    def start(self, efi: bytes, report: Callable[[str], None]) -> bool:
        """Have firmware start this GRUB the next time, and only then.

        False where it is the one that is started anyway, failed before, or can't be tried, which is no error
        but reported: nothing is left of it then, and an upgrade goes on with the old one.
        """
        try:
            self.end()
            with self.target.mount(_PLACE, read_only=True) as root:
                path = root / EFI_PATH
                if path.is_file() and path.read_bytes() == efi:
                    return False
                if has_failed(root, efi):
                    report("the release's boot loader did not start here before: the present one is kept")
                    return False
            number = self._prepare(efi)
        except (OSError, UserError) as error:
            report(f"the release's boot loader can't be tried before it replaces the present one: {error}")
            with suppress(OSError):
                self.end()
            return False
        report(f"the release's boot loader is tried once, by the firmware's entry Boot{number:04X}")
        return True

    def _prepare(self, efi: bytes) -> int:
        """Write the file and the variables; the number of the entry."""
        names = self.variables.list()
        if not names:
            raise UserError("the machine was not started by UEFI")
        if _NEXT in names:
            raise UserError("the firmware has an entry to start next that is not this system's")
        partition = read_partition(self.target, _PLACE)
        with self.target.mount(_PLACE) as root:
            (root / FOLDER).mkdir(parents=True, exist_ok=True)
            for path in (root / FOLDER).iterdir():
                if path.name != FAILED:
                    path.unlink()  # of a trial that was cut short before it had an entry
            replace_durably(root / FOLDER / TRIAL_LOADER, [efi])
        with self.target.mount(_PLACE, read_only=True) as root:
            if (root / FOLDER / TRIAL_LOADER).read_bytes() != efi:
                raise UserError("it reads differently from what was written", where=self.target.path)
        entry = BootEntry(description=DESCRIPTION, partition=partition, path=f"/{FOLDER}/{TRIAL_LOADER}")
        number = self._find_free(names)
        self.variables.make(f"Boot{number:04X}", format_entry(entry))
        self.variables.make(_NEXT, _NUMBER.pack(number))
        return number

    def _find_free(self, names: Sequence[str]) -> int:
        """A number without an entry, which the order of entries does not have either."""
        order = self.variables.read(_ORDER) or b""
        used = {number for (number,) in _NUMBER.iter_unpack(order[: len(order) & ~1])}
        used |= {int(match[1], 16) for match in map(_NAME.fullmatch, names) if match}
        return next(number for number in range(_NUMBERS) if number not in used)

    def end(self, *, has_failed: bool = False) -> None:
        """Remove what is left of a trial, if there is anything; OSError. A GRUB that failed is remembered."""
        entries = _find_entries(self.variables)
        if not (entries or has_failed):
            return
        _cancel(self.variables, entries)
        with self.target.mount(_PLACE) as root:
            path = root / FOLDER / TRIAL_LOADER
            if path.is_file():
                if has_failed:
                    replace_durably(path.with_name(FAILED), [_make_digest(path.read_bytes()), b"\n"])
                path.unlink()
        _remove(self.variables, entries)


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


def remove_entries(variables: EfiVariables) -> None:
    """Remove the boot entries of trials, of whichever disk: there is one system on a machine."""
    entries = _find_entries(variables)
    _cancel(variables, entries)
    _remove(variables, entries)


def _find_entries(variables: EfiVariables) -> Sequence[str]:
    return [name for name in variables.list() if _NAME.fullmatch(name) and _is_trial(variables.read(name))]


def _cancel(variables: EfiVariables, entries: Sequence[str]) -> None:
    value = variables.read(_NEXT) if entries else None
    if value is not None and value in [_NUMBER.pack(int(name[-4:], 16)) for name in entries]:
        variables.delete(_NEXT)


def _remove(variables: EfiVariables, entries: Sequence[str]) -> None:
    for name in entries:
        variables.delete(name)


def _is_trial(value: bytes | None) -> bool:
    try:
        entry = parse_entry(value or b"")
    except ValueError:
        return False
    return entry.description == DESCRIPTION and entry.path == f"/{FOLDER}/{TRIAL_LOADER}"


def _make_digest(efi: bytes) -> bytes:
    return hashlib.sha256(efi).hexdigest().encode()
