"""The two slots of a container node, in a folder that its launcher starts it from.

A/, B/     ``release``, the identity of the slot's release; ``rootfs.sqsh``, its system image, but for the
           cluster's own, which all nodes share; ``extensions``, its layers, if it has any
default    the slot that is started
next       the slot that is started once: the launcher removes the file before it starts that slot
watchdog   there during a trial: the launcher kills a node that has not touched it for too long
cause      why the last boot failed, as far as the launcher can find out
meta       META

A node sees the folder below its handover and writes the slot that it does not run from. To the launcher the
folder may hold anything.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import override

from talos.system.block.meta import make_meta
from talos.system.errors import UserError
from talos.system.files import flush_folder, hash_file, read_pieces, replace_durably
from talos.system.logging import make_printable
from talos.system.version import parse_os_release
from talos.system.watchdog import Watchdog
from talos.upgrade.release.initramfs import DIGESTS, EXTENSIONS, IMAGE
from talos.upgrade.release.unpack import (
    OS_RELEASE,
    drop_cache,
    read_layers,
    unpack_release,
    unpack_system,
)
from talos.upgrade.state import SLOTS, other_slot

NEW, OLD = ".new", ".old"
"""Endings of a folder while it takes the place of another."""
DEFAULT, NEXT, WATCHDOG, CAUSE, META = "default", "next", "watchdog", "cause", "meta"
WATCHDOG_TIMEOUT = 120  # seconds
"""From the start of a trial until the self-check has to feed the watchdog, and between two feeds."""
_MAX_SMALL = 8192


@dataclass(frozen=True, slots=True)
class Boot:
    """A slot to start; ``is_trial`` when it is the one to start once."""

    slot: str
    is_trial: bool


@dataclass(frozen=True, slots=True)
class FolderWatchdog(Watchdog):
    """A file that the launcher looks at."""

    path: Path

    @override
    def set_timeout(self, seconds: int) -> int:
        return WATCHDOG_TIMEOUT

    @override
    def feed(self) -> None:
        with suppress(FileNotFoundError):
            os.utime(self.path)

    @override
    def disarm(self) -> None:
        self.path.unlink(missing_ok=True)


class SlotFolder:
    """The slots of one node. All methods block; OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def meta(self) -> Path:
        """The file that holds META."""
        return self.path / META

    def create(self, stamp: Path | None) -> None:
        """Make the folder, unless there is one. ``stamp`` is the identity of the cluster's image."""
        if self.path.exists():
            return
        new = self.path.with_name(self.path.name + NEW)
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        (new / SLOTS[0]).mkdir(mode=0o755)
        if stamp is not None:
            unpack_release(read_pieces(stamp), new / SLOTS[0])
        (new / META).write_bytes(make_meta({}))
        (new / DEFAULT).write_text(SLOTS[0] + "\n", encoding="ascii")
        new.rename(self.path)

    def read(self) -> tuple[Mapping[str, str], str]:
        """The versions of the slots that can be started, and the default."""
        versions = {slot: self._read_version(slot) for slot in SLOTS if self._holds_system(slot)}
        return versions, self._read_slot(DEFAULT) or SLOTS[0]

    def image(self, slot: str) -> Path | None:
        """A slot's own system image; None where it is the cluster's."""
        path = self.path / slot / IMAGE
        return path if path.is_file() and not path.is_symlink() else None

    def layers(self, slot: str) -> list[Path]:
        """The extensions of a slot, the first one below the system image, then the others. UserError."""
        names = read_layers(_read_small(self.path / slot / EXTENSIONS / DIGESTS))
        found = [self.path / slot / name for name in names]
        for path in found:
            if not path.is_file() or path.is_symlink():
                raise UserError("is missing", where=f"slot {slot}: {path.name}")
        return found

    def _holds_system(self, slot: str) -> bool:
        folder = self.path / slot
        return folder.is_dir() and not folder.is_symlink()

    def choose(self) -> list[Boot]:
        """What to start now, in this order: the slot to be tried once, the default, the other one."""
        trial = self._take_next()
        default = self._read_slot(DEFAULT) or SLOTS[0]
        boots = [Boot(default, is_trial=False), Boot(other_slot(default), is_trial=False)]
        if trial and trial != default:
            boots.insert(0, Boot(trial, is_trial=True))
        return [boot for boot in boots if self._holds_system(boot.slot)]

    def set_watchdog(self, *, armed: bool) -> None:
        """Have it wait from now on, or no more."""
        with suppress(OSError):
            (self.path / WATCHDOG).unlink(missing_ok=True)
            if armed:
                (self.path / WATCHDOG).touch(mode=0o600)

    def note_end(self, cause: str) -> None:
        """Keep why a boot failed, until one does not; the first cause is the one that counts."""
        if not os.path.lexists(self.path / CAUSE):
            with suppress(OSError):
                replace_durably(self.path / CAUSE, [cause.encode()[:_MAX_SMALL]])

    def read_cause(self) -> str:
        """Why the last boot failed; empty when it did not."""
        return make_printable(_read_small(self.path / CAUSE).strip())

    def erase_cause(self) -> None:
        """Once it is kept elsewhere."""
        (self.path / CAUSE).unlink(missing_ok=True)

    def open_watchdog(self) -> FolderWatchdog | None:
        """The watchdog that is armed, if it is."""
        path = self.path / WATCHDOG
        return FolderWatchdog(path) if path.exists() else None

    def count_down(self) -> float | None:
        """The seconds that the watchdog still waits; None when it is not armed."""
        try:
            fed = (self.path / WATCHDOG).lstat().st_mtime
        except OSError:
            return None
        return min(fed + WATCHDOG_TIMEOUT - time.time(), WATCHDOG_TIMEOUT)

    def _take_next(self) -> str:
        """The slot to start once, which is none as soon as this returns."""
        slot = self._read_slot(NEXT)
        if not os.path.lexists(self.path / NEXT):
            return ""
        try:
            (self.path / NEXT).unlink()
            flush_folder(self.path)
        except OSError:
            return ""  # a slot that may be started twice is not on trial
        return slot

    def write(self, slot: str, initramfs: Iterable[bytes], report: Callable[[str], None]) -> None:
        """Put a release's system into a slot. UserError, OSError; the slot has then what it had before."""
        if self.read()[1] == slot:
            raise UserError(f"slot {slot} is the default, it is not overwritten", where="upgrade")
        report(f"writing slot {slot}")
        new, old = self.path / f"{slot}{NEW}", self.path / f"{slot}{OLD}"
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir(mode=0o755)
            digests = unpack_system(initramfs, new)
            report(f"reading slot {slot} back")
            damaged = [name for name, digest in digests.items() if _hash_disk(new / name) != digest]
            if damaged:
                text = f"{damaged[0]} reads differently from what was written"
                raise UserError(text, where=f"slot {slot}", hint="the disk is broken")
            shutil.rmtree(old, ignore_errors=True)
            if (self.path / slot).exists():
                (self.path / slot).rename(old)
            new.rename(self.path / slot)
            flush_folder(self.path)
        finally:
            shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)

    def boot_once(self, slot: str) -> None:
        """Start a slot the next time, and only then."""
        replace_durably(self.path / NEXT, [slot.encode() + b"\n"])

    def make_default(self, slot: str) -> None:
        """Start a slot from now on."""
        replace_durably(self.path / DEFAULT, [slot.encode() + b"\n"])

    def _read_slot(self, name: str) -> str:
        """The slot in a file; empty when it holds none."""
        text = _read_small(self.path / name).strip()
        return text if text in SLOTS else ""

    def _read_version(self, slot: str) -> str:
        return parse_os_release(_read_small(self.path / slot / OS_RELEASE)).get("VERSION_ID", "unknown")


def _read_small(path: Path) -> str:
    """The beginning of a plain file; empty when there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MAX_SMALL).decode("ascii", "replace")
    except OSError:
        return ""


def _hash_disk(path: Path) -> str:
    """The digest of what is on the disk, not of what memory has of it."""
    drop_cache(path)
    return hash_file(path)
