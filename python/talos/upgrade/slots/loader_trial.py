"""A new boot loader tried once on UEFI: it lies beside the present one, and firmware's BootNext leads to it.

Firmware deletes BootNext before it follows it (UEFI specification 2.10, section 3.1.1), so that one that does
not start, or hangs, is followed by the old one. How the machine notices that is the boot loader's own matter.

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

from talos.system.block.layout import Placed
from talos.system.block.target import Target
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.upgrade.slots.boot_entry import BootEntry, format_entry, parse_entry, read_partition

FOLDER = "EFI/TALOS"
"""Within EFI. Its name is in no firmware's list of places to look."""
DESCRIPTION = "Talos upgrade"
FAILED = "FAILED"
"""The digest of a boot loader that did not start here."""
_NEXT, _ORDER = "BootNext", "BootOrder"
_NAME = re.compile(r"Boot([0-9A-F]{4})")
_NUMBER = struct.Struct("<H")
_NUMBERS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderPlace:
    """Where a boot loader is on EFI: ``path`` is started, ``name`` is on trial, in :data:`FOLDER`.

    ``untried`` is what follows where it can't be tried, for the report.
    """

    placed: Placed
    path: str
    name: str
    untried: str

    @property
    def trial_path(self) -> str:
        """The one on trial."""
        return f"{FOLDER}/{self.name}"


def has_failed(root: Path, efi: bytes) -> bool:
    """Whether EFI, which is at ``root``, has the mark of this boot loader."""
    path = root / FOLDER / FAILED
    return path.is_file() and path.read_bytes()[:64] == _make_digest(efi)


@dataclass(frozen=True, slots=True)
class BootLoaderTrial:
    """Trials on a disk. All methods block."""

    target: Target
    place: LoaderPlace
    variables: EfiVariables = field(default_factory=EfiVariables)

    @property
    def is_there(self) -> bool:
        """Whether something is left of one, which has its verdict to come, or was cut short."""
        return bool(_find_entries(self.variables))

    def start(self, efi: bytes, report: Callable[[str], None]) -> bool:
        """Have firmware start this boot loader the next time, and only then.

        False where it is the one that is started anyway, failed before, or can't be tried, which is no error
        but reported: nothing is left of it then, and an upgrade goes on with the old one.
        """
        try:
            self.end()
            with self.target.mount(self.place.placed, read_only=True) as root:
                path = root / self.place.path
                if path.is_file() and path.read_bytes() == efi:
                    return False
                if has_failed(root, efi):
                    report("the release's boot loader did not start here before: the present one is kept")
                    return False
            number = self._prepare(efi)
        except (OSError, UserError) as error:
            report(f"the release's boot loader can't be tried {self.place.untried}: {error}")
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
        partition, trial = read_partition(self.target, self.place.placed), self.place.trial_path
        with self.target.mount(self.place.placed) as root:
            (root / FOLDER).mkdir(parents=True, exist_ok=True)
            for path in (root / FOLDER).iterdir():
                if path.name != FAILED:
                    path.unlink()  # of a trial that was cut short before it had an entry
            replace_durably(root / trial, [efi])
        with self.target.mount(self.place.placed, read_only=True) as root:
            if (root / trial).read_bytes() != efi:
                raise UserError("it reads differently from what was written", where=self.target.path)
        entry = BootEntry(description=DESCRIPTION, partition=partition, path=f"/{trial}")
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

    def read(self) -> bytes:
        """The boot loader on trial; OSError without one."""
        with self.target.mount(self.place.placed, read_only=True) as root:
            return (root / self.place.trial_path).read_bytes()

    def end(self, *, has_failed: bool = False) -> None:
        """Remove what is left of a trial, if there is anything; OSError. One that failed is remembered."""
        entries = _find_entries(self.variables)
        if not (entries or has_failed):
            return
        _cancel(self.variables, entries)
        with self.target.mount(self.place.placed) as root:
            path = root / self.place.trial_path
            if path.is_file():
                if has_failed:
                    replace_durably(path.with_name(FAILED), [_make_digest(path.read_bytes()), b"\n"])
                path.unlink()
        _remove(self.variables, entries)


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
    return entry.description == DESCRIPTION and entry.path.startswith(f"/{FOLDER}/")


def _make_digest(efi: bytes) -> bytes:
    return hashlib.sha256(efi).hexdigest().encode()
