"""Twins of systemd-boot 257, of the firmware that starts it, and of early init: what is started, and what is
left behind.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from talos.system.efi_variables import LOADER, EfiVariables
from talos.upgrade.release.manifest import parse_version
from talos.upgrade.slots.boot_entry import parse_entry
from talos.upgrade.slots.systemd_boot.entry import FOLDER, LOADER_PATH, find_slot, name_slot, read_version
from talos.upgrade.slots.systemd_boot.settings import PATH, find_entry
from talos.upgrade.slots.systemd_boot.starts import NAME, StartCount
from talos.upgrade.state import ATTEMPTS, MAX_COUNT, SLOTS, other_slot


@dataclass(frozen=True, slots=True)
class Start:
    """What is started: a file's content."""

    slot: str
    content: bytes
    is_trial: bool


@dataclass(frozen=True, slots=True)
class Loader:
    """systemd-boot on the EFI partition whose files are at ``root``."""

    root: Path
    variables: EfiVariables

    def start(self) -> Start | None:
        """Start an image, as boot.c of systemd does: ``config_select_default_entry`` and what it calls."""
        once = self._read("LoaderEntryOneShot")
        self.variables.delete("LoaderEntryOneShot")
        settings = self.root / PATH
        patterns = (
            once,
            self._read("LoaderEntryDefault"),
            find_entry(settings.read_text("latin-1")) if settings.is_file() else "",
        )
        names = [path.name for path in (self.root / FOLDER).iterdir() if path.name.endswith(".efi")]
        names = [name for name in names if read_version(self.root / FOLDER / name)]
        entries = sorted((*names, *(f"{name}@trial" for name in names)), key=self._key)
        for pattern in (*filter(None, patterns), "*"):
            found = [entry for entry in entries if fnmatchcase(entry.lower(), pattern.lower())]
            if found:
                self._leave("LoaderEntries", *entries)
                self._leave("LoaderEntrySelected", found[0])
                name = found[0].partition("@")[0]
                content = (self.root / FOLDER / name).read_bytes()
                return Start(find_slot(name), content, "@trial" in found[0])
        return None

    def _key(self, entry: str) -> tuple[tuple[int, ...], str, bool]:
        """The newest version first, then the last name; a further profile after the first one."""
        name = entry.partition("@")[0]
        version = parse_version(read_version(self.root / FOLDER / name))
        backward = "".join(chr(0x10FFFF - ord(letter)) for letter in name)
        return tuple(-number for number in version), backward, "@" in entry

    def _leave(self, name: str, *texts: str) -> None:
        self.variables.delete(name)
        self.variables.make(name, "".join(f"{text}\0" for text in texts).encode("utf-16-le"))

    def _read(self, name: str) -> str:
        return (self.variables.read(name) or b"").decode("utf-16-le").rstrip("\0")


def count_start(loader: EfiVariables, starts: EfiVariables) -> int:
    """Early init counts a start that is no trial, as kernel/init/starts.c does; the count, 0 without one."""
    entry, *_ = read_texts(loader, "LoaderEntrySelected") or [""]
    slot, count = entry[6:7].upper(), StartCount(starts).read()
    if entry not in map(name_slot, SLOTS) or name_slot(other_slot(slot)) not in read_texts(
        loader, "LoaderEntries"
    ):
        return 0
    if count.count == MAX_COUNT:
        return MAX_COUNT
    is_first = count.count < ATTEMPTS and slot != count.slot
    first, number = (slot, 1) if is_first else (count.slot, count.count + 1)
    starts.delete(NAME)
    starts.make(NAME, f"{first}{number}".encode())
    if ATTEMPTS <= number < MAX_COUNT:
        loader.delete("LoaderEntryOneShot")
        loader.make("LoaderEntryOneShot", f"{name_slot(other_slot(first))}\0".encode("utf-16-le"))
    return number


def read_texts(variables: EfiVariables, name: str) -> list[str]:
    """The texts of a variable."""
    return (variables.read(name) or b"").decode("utf-16-le").split("\0")[:-1]


def make_variables(folder: Path) -> EfiVariables:
    """Firmware's, in a folder."""
    folder.mkdir(exist_ok=True)
    return EfiVariables(folder, LOADER)


def start_loader(root: Path, settings: EfiVariables, variables: EfiVariables, broken: bytes = b"") -> bytes:
    """Firmware starts a boot loader, which leaves its own place; its content. One that is ``broken`` returns.

    ``settings`` are firmware's own variables, the others boot loaders'.
    """
    paths, number = [LOADER_PATH], settings.read("BootNext")
    if number is not None:
        settings.delete("BootNext")
        entry = parse_entry(settings.read(f"Boot{number[1]:02X}{number[0]:02X}") or b"")
        paths.insert(0, entry.path.removeprefix("/"))
    variables.delete("LoaderImageIdentifier")
    for path in paths:
        content = (root / path).read_bytes()
        if content != broken:
            place = "\\".join(("", *path.split("/")))
            variables.make("LoaderImageIdentifier", f"{place}\0".encode("utf-16-le"))
            return content
    raise AssertionError("no boot loader starts")
