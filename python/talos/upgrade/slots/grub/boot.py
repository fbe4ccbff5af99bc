"""The two slots on BOOT: writing the one that does not run, and choosing which is booted.

Safe against power cuts: a new system is written beside the slot, read back after the filesystem was
unmounted, and only then takes the slot's place. The slot that runs is never touched. What is booted changes
within one sector of the disk: GRUB replays no log of a filesystem, and a disk may keep any part of what it
was given last. On a mirror GRUB writes the half that it was started from, and nothing else does.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from talos.system.block.layout import BOOT, place_area
from talos.system.block.target import Target
from talos.system.errors import UserError
from talos.system.files import flush_folder, hash_file, replace_durably
from talos.system.kernel import exchange
from talos.upgrade.slots.grub.config import INITRAMFS, KERNEL, PATH, Entry, make_config, parse_config
from talos.upgrade.slots.grub.environment import (
    ENVIRONMENT,
    Environment,
    make_environment,
    merge_environments,
    parse_environment,
)

NEW, OLD = ".new", ".old"
"""Endings of a slot's folder while another takes its place."""
NEW_CONFIG = f"{PATH}{NEW}"
"""Within BOOT: the next config, and then the last one."""
UNREADABLE = "it can't be read from each half of the mirror by itself"
_BOOT = place_area(BOOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotContent:
    """A system for a slot. ``files`` are the kernel and the initramfs, ``digests`` their SHA-256."""

    entry: Entry
    files: Mapping[str, Callable[[], Iterator[bytes]]]
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootState:
    """What BOOT holds: the slots that can be booted, the default, and GRUB's environment.

    ``damage`` is what is wrong with the environment: GRUB takes one that it can't read for an empty one.
    ``is_equal`` is whether the halves of a mirror have the same one.
    """

    entries: Mapping[str, Entry]
    default: str
    environment: Environment
    damage: str
    is_equal: bool = True


class BootPartition:
    """The slots of a system disk. All methods block; UserError, OSError."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def read(self) -> BootState:
        """All of it; UserError when GRUB's config is not the installer's."""
        with self._target.mount(_BOOT, read_only=True) as root:
            entries, default = _read_config(root)
            environment, damage, is_equal = self._read_environment(root)
            complete = {entry.slot: entry for entry in entries if _is_complete(root / entry.slot)}
        return BootState(
            entries=complete, default=default, environment=environment, damage=damage, is_equal=is_equal
        )

    def write(self, content: SlotContent, report: Callable[[str], None]) -> None:
        """Put a system into its slot. When this raises, the slot has what it had before."""
        slot = content.entry.slot
        report(f"writing slot {slot}")
        with self._target.mount(_BOOT) as root:
            _, default = _read_config(root)
            if default == slot:
                raise UserError(f"slot {slot} is the default, it is not overwritten", where="upgrade")
            self._copy(root / f"{slot}{NEW}", content)
        report(f"reading slot {slot} back")
        with self._target.mount(_BOOT, read_only=True) as root:
            damaged = _find_damaged(root / f"{slot}{NEW}", content)
        with self._target.mount(_BOOT) as root:
            if damaged:
                shutil.rmtree(root / f"{slot}{NEW}", ignore_errors=True)
                raise UserError(
                    f"{damaged} reads differently from what was written",
                    where=self._target.path,
                    hint="the disk is broken",
                )
            _take_place(root, slot)

        def add(root: Path) -> tuple[Sequence[Entry], str]:
            entries, default = _read_config(root)
            return [*(entry for entry in entries if entry.slot != slot), content.entry], default

        self._write_config(add)

    def _copy(self, folder: Path, content: SlotContent) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
        try:
            for name, read in content.files.items():
                replace_durably(folder / name, read())
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        flush_folder(folder.parent)

    def boot_once(self, slot: str, *, by_trial_loader: bool = False) -> None:
        """Have GRUB boot a slot the next time and only then; without one, the default.

        ``by_trial_loader`` leaves that to the GRUB that is on trial.
        """
        with self._target.mount(_BOOT) as root:
            _write_environment(root, Environment(next_slot=slot, by_trial_loader=by_trial_loader))

    def reset_boot_count(self) -> None:
        """Have GRUB count starts anew. What is booted once stays, if there is anything."""
        with self._target.mount(_BOOT) as root:
            environment, _, _ = self._read_environment(root)
            _write_environment(root, replace(environment, count=0))

    def make_default(self, slot: str) -> None:
        """Have GRUB boot a slot from now on."""
        self._write_config(lambda root: (_read_config(root)[0], slot))

    def restore(self, entries: Sequence[Entry], default: str) -> None:
        """Write a config that can't be read anew, with the slots that are complete; UserError without one."""

        def keep(root: Path) -> tuple[Sequence[Entry], str]:
            kept = {entry.slot: entry for entry in entries if _is_complete(root / entry.slot)}
            if not kept:
                raise UserError("no slot holds a system", where="BOOT", hint="install the system again")
            (root / PATH).parent.mkdir(mode=0o755, exist_ok=True)
            return list(kept.values()), default if default in kept else next(iter(kept))

        self._write_config(keep)

    def _read_environment(self, root: Path) -> tuple[Environment, str, bool]:
        """GRUB's environment, what is wrong with it, and whether all halves of a mirror have this one.

        A disk with one slot has none and counts no starts.
        """
        path = root / ENVIRONMENT
        found, damage = list[Environment](), ""
        try:
            if not path.exists():
                return Environment(), "", True
            copies = self._target.read_copies(_BOOT, path)
            if not copies:
                copies, damage = [path.read_bytes()], UNREADABLE
        except OSError as error:
            return Environment(), str(error), True
        for copy in copies:
            try:
                found.append(parse_environment(copy))
            except ValueError as error:
                damage = str(error)
        is_equal = all(copy == copies[0] for copy in copies)
        return merge_environments(found) if found else Environment(), damage, is_equal

    def _write_config(self, choose: Callable[[Path], tuple[Sequence[Entry], str]]) -> None:
        """Replace GRUB's config by one with the entries, and the default, that are chosen in view of BOOT.

        The new file is complete on the disk before its name changes. The two files exchange their names,
        which only the folder's inode has, and that is one sector. The old one stays: an inode that is freed
        in the same write might be gone before the name is another's.
        """
        with self._target.mount(_BOOT) as root:
            entries, default = choose(root)
            data = make_config(sorted(entries, key=lambda entry: entry.slot), default).encode()
            replace_durably(root / NEW_CONFIG, [data], mode=0o600)
        with self._target.mount(_BOOT) as root:
            if (root / PATH).exists():
                exchange(str(root / NEW_CONFIG), str(root / PATH))
            else:
                (root / NEW_CONFIG).rename(root / PATH)
            flush_folder((root / PATH).parent)


def _read_config(root: Path) -> tuple[tuple[Entry, ...], str]:
    try:
        return parse_config((root / PATH).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"is not the installer's: {error}", where=f"BOOT/{PATH}", hint="install the system again"
        ) from None


def _write_environment(root: Path, environment: Environment) -> None:
    data, path = make_environment(environment), root / ENVIRONMENT
    if not (path.is_file() and path.stat().st_size == len(data)):
        replace_durably(path, [data])
        return
    # In place: GRUB does not see what is only in the filesystem's log.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, data, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_place(root: Path, slot: str) -> None:
    """Let the new folder be the slot. Cut short, the slot is missing, and what GRUB boots is the other."""
    old, new = root / f"{slot}{OLD}", root / f"{slot}{NEW}"
    shutil.rmtree(old, ignore_errors=True)
    if (root / slot).exists():
        (root / slot).rename(old)
    new.rename(root / slot)
    flush_folder(root)
    shutil.rmtree(old, ignore_errors=True)


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (KERNEL, INITRAMFS))


def _find_damaged(folder: Path, content: SlotContent) -> str:
    for name, wanted in content.digests.items():
        if hash_file(folder / name) != wanted:
            return name
    return ""
