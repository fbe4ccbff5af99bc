"""The two slots on EFI: UKIs by their names, and systemd-boot's choice among them.

Safe against power cuts: a new UKI is written beside the slot, read back after the filesystem was unmounted,
and only then takes the slot's name. The slot that runs is never touched. What is started changes with the
name of one file, in a folder whose entries are all within its first sector; vfat has no log that a boot
loader would need.

A slot that is to be tried is named by a variable of the firmware's, which systemd-boot deletes before it
starts the slot: the start after that is the default's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from talos.system.block.layout import UKI_INSTALLED, place_areas
from talos.system.block.target import Target
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.system.files import flush_folder, hash_file, read_file, replace_durably
from talos.system.pe import Program
from talos.upgrade.release.manifest import MAX_UPDATE
from talos.upgrade.slots.systemd_boot.entry import (
    FOLDER,
    LOADER_PATH,
    name_revocations,
    name_slot,
    name_trial,
    read_version,
)
from talos.upgrade.slots.systemd_boot.settings import (
    INITIAL,
    MAX_SETTINGS,
    NEW_NAME,
    PATH,
    find_default,
    find_entry,
    make_settings,
)
from talos.upgrade.slots.vfat import take_name
from talos.upgrade.state import SLOTS

ONCE, ALWAYS = "LoaderEntryOneShot", "LoaderEntryDefault"
"""Variables: the entry to start once, and a person's choice at the menu, which precedes the settings."""
NEW = "talos.new"
"""The file of a UKI until it is a slot's."""
(_PLACE, _) = place_areas(UKI_INSTALLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotContent:
    """A UKI for a slot. ``digest`` is its SHA-256.

    ``revocations`` is the update of ``dbx`` for the time after its good verdict; empty without one.
    """

    slot: str
    read: Callable[[], Iterator[bytes]]
    digest: str
    revocations: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootState:
    """What EFI holds: the versions of the slots that can be started, and the default."""

    versions: Mapping[str, str]
    default: str


@dataclass(frozen=True, slots=True)
class EfiPartition:
    """The slots of a system disk; ``variables`` are boot loaders'. All methods block; UserError, OSError."""

    target: Target
    variables: EfiVariables

    def read(self) -> BootState:
        """All of it; UserError when the settings name no slot."""
        with self.target.mount(_PLACE, read_only=True) as root:
            return BootState(versions=_list_versions(root), default=_read_default(root))

    def check[T](self, slot: str, check: Callable[[Program], T]) -> T:
        """Have a slot's UKI checked; what the check returns or raises."""
        with self.target.mount(_PLACE, read_only=True) as root:
            return _check(root / FOLDER / name_slot(slot), check)

    def check_loader[T](self, check: Callable[[Program], T]) -> T:
        """Have the present systemd-boot checked; what the check returns or raises."""
        with self.target.mount(_PLACE, read_only=True) as root:
            return _check(root / LOADER_PATH, check)

    def read_revocations(self, slot: str) -> bytes:
        """The update of ``dbx`` beside a slot; empty without one."""
        with self.target.mount(_PLACE, read_only=True) as root:
            path = root / name_revocations(slot)
            return read_file(path, MAX_UPDATE) if path.exists() else b""

    def drop_revocations(self, slot: str) -> None:
        """Remove it."""
        with self.target.mount(_PLACE) as root:
            _keep_revocations(root, slot, b"")

    def write(self, content: SlotContent, report: Callable[[str], None]) -> None:
        """Put a system into its slot. When this raises, the slot has what it had before."""
        slot = content.slot
        report(f"writing slot {slot}")
        with self.target.mount(_PLACE) as root:
            if _read_default(root) == slot:
                raise UserError(f"slot {slot} is the default, it is not overwritten", where="upgrade")
            replace_durably(root / FOLDER / NEW, content.read())
        report(f"reading slot {slot} back")
        with self.target.mount(_PLACE, read_only=True) as root:
            is_damaged = hash_file(root / FOLDER / NEW) != content.digest
        with self.target.mount(_PLACE) as root:
            if is_damaged:
                (root / FOLDER / NEW).unlink()
                raise UserError(
                    "a UKI reads differently from what was written",
                    where=self.target.path,
                    hint="the disk is broken",
                )
            _keep_revocations(root, slot, content.revocations)
            take_name(root / FOLDER / NEW, root / FOLDER / name_slot(slot))

    def boot_once(self, slot: str) -> None:
        """Have a slot started the next time and only then; without one, the default."""
        try:
            self.variables.delete(ONCE)
            if slot:
                # Its text is as all of boot loaders' variables have it.
                self.variables.make(ONCE, f"{name_trial(slot)}\0".encode("utf-16-le"))
        except OSError as error:
            raise UserError(
                f"the firmware does not keep this variable: {error.strerror}",
                where=ONCE,
                hint="make room for it in the firmware's setup, or update the firmware",
            ) from None

    def make_default(self, slot: str) -> None:
        """Have a slot started from now on; what names another one is removed."""
        with self.target.mount(_PLACE) as root:
            if slot not in _list_versions(root):
                raise UserError(
                    f"slot {slot} holds no system", where="EFI", hint="upgrade to the release that shall run"
                )
            for name in (ONCE, ALWAYS):
                self.variables.delete(name)
            before = _read_settings(root) if (root / PATH).is_file() else INITIAL
            if find_entry(before) != name_slot(slot):
                _write_settings(root, make_settings(before, slot))

    def restore(self, default: str) -> None:
        """Write settings that can't be read anew; UserError without a slot that can be started."""
        with self.target.mount(_PLACE) as root:
            there = sorted(_list_versions(root))
            if not there:
                raise UserError("no slot holds a system", where="EFI", hint="install the system again")
            _write_settings(root, make_settings(INITIAL, default if default in there else there[0]))


def _check[T](path: Path, check: Callable[[Program], T]) -> T:
    with path.open("rb") as file:
        return check(Program(file, path.stat().st_size))


def _keep_revocations(root: Path, slot: str, update: bytes) -> None:
    """Have this update of ``dbx`` beside a slot, or none.

    A power cut leaves it there with the slot's system of before, which is the owner's, too: it is not applied
    where that would not be started any more.
    """
    path = root / name_revocations(slot)
    if update:
        path.parent.mkdir(exist_ok=True)
        replace_durably(path, [update])
    elif path.exists():
        path.unlink()
        flush_folder(path.parent)


def _list_versions(root: Path) -> Mapping[str, str]:
    found = {slot: read_version(root / FOLDER / name_slot(slot)) for slot in SLOTS}
    return {slot: version for slot, version in found.items() if version}


def _read_settings(root: Path) -> str:
    with (root / PATH).open("rb") as file:
        return file.read(MAX_SETTINGS).decode("utf-8", "replace")


def _read_default(root: Path) -> str:
    try:
        return find_default(_read_settings(root))
    except (OSError, ValueError) as error:
        raise UserError(
            f"is not the installer's: {error}", where=f"EFI/{PATH}", hint="install the system again"
        ) from None


def _write_settings(root: Path, text: str) -> None:
    path = root / PATH
    path.parent.mkdir(mode=0o755, exist_ok=True)
    new = path.with_name(NEW_NAME)
    replace_durably(new, [text.encode()])
    take_name(new, path)
