"""A new GRUB tried once: what the firmware is given, what is left alone, and what a power cut leaves."""

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.disks.install.world import FolderTarget

from talos.system.block.layout import MIB
from talos.system.efi_variables import GLOBAL, EfiVariables
from talos.upgrade.slots.grub import loader_trial as module
from talos.upgrade.slots.grub.boot import BootPartition
from talos.upgrade.slots.grub.boot_entry import parse_entry
from talos.upgrade.slots.grub.config import Entry, make_config
from talos.upgrade.slots.grub.environment import (
    ENVIRONMENT,
    Environment,
    make_environment,
    parse_environment,
)
from talos.upgrade.slots.grub.loader import EFI_PATH
from talos.upgrade.slots.grub.loader_trial import (
    BootLoaderTrial,
    boot_once,
    end_trial,
    has_failed,
    remove_entries,
)

from .test_boot_entry import FEDORA, make_table

OLD, NEW, NEWER = b"MZ old", b"MZ new", b"MZ newer"
TRIAL = "EFI/TALOS/GRUBX64.EFI"
CANT = "the release's boot loader can't be tried before it replaces the present one: "


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


@pytest.fixture
def firmware(tmp_path: Path) -> Firmware:
    return Firmware(tmp_path / "efivars")


@pytest.fixture
def target(tmp_path: Path) -> FolderTarget:
    """A disk with a GRUB for UEFI."""
    target = FolderTarget(tmp_path / "disk", 2 * MIB)
    with target.open() as disk:
        disk.write(make_table(sector_size=512))
    path = target.root("EFI") / EFI_PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(OLD)
    return target


def start(trial: BootLoaderTrial, efi: bytes = NEW) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return trial.start(efi, lines.append), lines


def list_files(target: FolderTarget) -> set[str]:
    root = target.root("EFI")
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_firmware_is_given_one_entry_and_keeps_its_own(target: FolderTarget, firmware: Firmware) -> None:
    before, trial = firmware.read(), BootLoaderTrial(target, firmware.variables)
    line = "the release's boot loader is tried once, by the firmware's entry Boot0002"
    assert start(trial) == (True, [line])
    after = firmware.read()
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"Boot0002", "BootNext"}
    assert after["BootNext"] == b"\2\0"
    entry = parse_entry(after["Boot0002"] or b"")
    assert (entry.description, entry.path) == ("Talos upgrade", f"/{TRIAL}")
    assert (target.root("EFI") / TRIAL).read_bytes() == NEW
    assert (target.root("EFI") / EFI_PATH).read_bytes() == OLD
    trial.end()
    assert firmware.read() == before
    assert list_files(target) == {EFI_PATH}
    mounted = len(target.mounted)
    trial.end()
    assert len(target.mounted) == mounted, "nothing is left to be removed"


def test_what_is_started_anyway_is_not_tried(target: FolderTarget, firmware: Firmware) -> None:
    before = firmware.read()
    assert start(BootLoaderTrial(target, firmware.variables), OLD) == (False, [])
    assert firmware.read() == before
    assert target.mounted == ["EFI ro"]


def test_one_that_failed_is_not_tried_again_and_another_is(target: FolderTarget, firmware: Firmware) -> None:
    trial = BootLoaderTrial(target, firmware.variables)
    start(trial)
    firmware.variables.delete("BootNext")  # as firmware does
    trial.end(has_failed=True)
    root = target.root("EFI")
    assert (has_failed(root, NEW), has_failed(root, OLD)) == (True, False)
    line = "the release's boot loader did not start here before: the present one is kept"
    assert start(trial) == (False, [line])
    assert list_files(target) == {EFI_PATH, "EFI/TALOS/FAILED"}
    assert start(trial, NEWER)[0]
    trial.end(has_failed=True)
    assert has_failed(root, NEWER)


def test_an_entry_that_was_to_be_started_next_stays(target: FolderTarget, firmware: Firmware) -> None:
    firmware.variables.make("BootNext", b"\0\0")
    before = firmware.read()
    trial = BootLoaderTrial(target, firmware.variables)
    tried, (line,) = start(trial)
    assert (tried, line) == (
        False,
        f"{CANT}the firmware has an entry to start next that is not this system's",
    )
    assert firmware.read() == before
    trial.end()
    assert firmware.read() == before


def test_without_uefi_it_is_said(target: FolderTarget, tmp_path: Path) -> None:
    trial = BootLoaderTrial(target, EfiVariables(tmp_path / "none"))
    assert start(trial) == (False, [f"{CANT}the machine was not started by UEFI"])
    assert list_files(target) == {EFI_PATH}


def test_a_partition_that_can_not_be_read_is_said(
    target: FolderTarget, firmware: Firmware, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(target, "mount", refuse)
    assert start(BootLoaderTrial(target, firmware.variables)) == (
        False,
        [f"{CANT}[Errno 5] Input/output error"],
    )


@pytest.mark.parametrize("refused", ["Boot0002", "BootNext"])
def test_firmware_without_room_keeps_what_it_had(
    target: FolderTarget, firmware: Firmware, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def write(descriptor: int, data: bytes) -> int:
        if refused in Path(f"/proc/self/fd/{descriptor}").readlink().name:
            raise OSError(28, "No space left on device")
        return WRITE(descriptor, data)

    before = firmware.read()
    monkeypatch.setattr("talos.system.efi_variables.os.write", write)
    tried, (line,) = start(BootLoaderTrial(target, firmware.variables))
    assert (tried, line) == (False, f"{CANT}[Errno 28] No space left on device")
    assert firmware.read() == before


def test_firmware_that_forgets_what_it_was_given_keeps_what_it_had(
    target: FolderTarget, firmware: Firmware, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = firmware.read()

    def forget(descriptor: int, data: bytes) -> int:
        return WRITE(descriptor, data[:4])

    monkeypatch.setattr("talos.system.efi_variables.os.write", forget)
    tried, (line,) = start(BootLoaderTrial(target, firmware.variables))
    assert not tried
    assert "reads differently from what was written" in line
    assert firmware.read() == before


def test_a_reset_removes_the_entry(target: FolderTarget, firmware: Firmware) -> None:
    before = firmware.read()
    start(BootLoaderTrial(target, firmware.variables))
    remove_entries(firmware.variables)
    assert firmware.read() == before


WRITE = os.write


class PowerCutError(BaseException):
    """The power is cut: nothing is done any more."""


def make_power(calls: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Changes end at one of the calls that it guards."""
    left = [calls]

    def guard(call: Callable[..., None]) -> Callable[..., None]:
        def guarded(*args: object, **more: object) -> None:
            left[0] -= 1
            if not left[0]:
                raise PowerCutError
            call(*args, **more)

        return guarded

    return guard


@pytest.fixture
def slots(target: FolderTarget) -> BootPartition:
    """Slots A, the default, and B, of the same disk."""
    root = target.root("BOOT")
    entries = [Entry(slot=slot, version="v1.15.0", arguments=("pti=on",)) for slot in "AB"]
    (root / "grub").mkdir(parents=True)
    (root / "grub/grub.cfg").write_text(make_config(entries, "A"), encoding="ascii")
    return BootPartition(target)


def boot(target: FolderTarget, firmware: Firmware, *, starts: bool = True) -> str:
    """What firmware and GRUB do; the slot that is started. The new GRUB ``starts``, or does not."""
    variables, root = firmware.variables, target.root("EFI")
    number, efi = variables.read("BootNext"), OLD
    if number is not None:
        variables.delete("BootNext")
        entry = parse_entry(variables.read(f"Boot{number[1]:02X}{number[0]:02X}") or b"")
        efi = (root / entry.path.removeprefix("/")).read_bytes()
        assert efi in (NEW, NEWER), "firmware starts no whole file"
        efi = efi if starts else OLD
    path = target.root("BOOT") / ENVIRONMENT
    environment = parse_environment(path.read_bytes()) if path.exists() else Environment()
    if not environment.next_slot or (environment.by_trial_loader and efi == OLD):
        return "A"
    path.write_bytes(make_environment(replace(environment, next_slot="")))
    return environment.next_slot


def end(slots: BootPartition, trial: BootLoaderTrial) -> bool:
    """What the next system does; whether the new GRUB has failed."""
    failed = slots.read().environment.waits_for_trial_loader
    end_trial(slots, trial, has_failed=failed)
    return failed


@pytest.mark.parametrize("starts", [False, True])
def test_a_slot_is_booted_once_by_the_new_one_or_not_at_all(
    target: FolderTarget, firmware: Firmware, slots: BootPartition, starts: bool
) -> None:
    before, trial = firmware.read(), BootLoaderTrial(target, firmware.variables)
    boot_once(slots, trial, "B", NEW, lambda _: None)
    assert boot(target, firmware, starts=starts) == ("B" if starts else "A")
    assert boot(target, firmware) == "A"
    assert end(slots, trial) == (not starts)
    assert has_failed(target.root("EFI"), NEW) == (not starts)
    assert not end(slots, trial)
    assert firmware.read() == before
    boot_once(slots, trial, "B", NEW, lambda _: None)
    assert boot(target, firmware, starts=starts) == "B", "without the one that did not start"


def test_what_can_not_be_tried_is_booted_by_the_old_one(
    target: FolderTarget, slots: BootPartition, firmware: Firmware, tmp_path: Path
) -> None:
    trial = BootLoaderTrial(target, EfiVariables(tmp_path / "none"))
    boot_once(slots, trial, "B", NEW, lambda _: None)
    assert boot(target, firmware) == "B"
    assert not end(slots, trial)


@pytest.mark.parametrize("is_in_end", [False, True])
@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize("earlier", [b"", NEWER])
@pytest.mark.parametrize("point", range(1, 12))
def test_a_power_cut_boots_a_slot_and_leaves_nothing(
    target: FolderTarget,
    firmware: Firmware,
    slots: BootPartition,
    monkeypatch: pytest.MonkeyPatch,
    point: int,
    earlier: bytes,
    starts: bool,
    is_in_end: bool,
) -> None:
    before, trial = firmware.read(), BootLoaderTrial(target, firmware.variables)
    if earlier:
        boot_once(slots, trial, "B", earlier, lambda _: None)
    with monkeypatch.context() as patched:
        guard = make_power(point)
        patched.setattr(module, "replace_durably", guard(module.replace_durably))
        patched.setattr(BootPartition, "boot_once", guard(BootPartition.boot_once))
        patched.setattr(EfiVariables, "make", guard(EfiVariables.make))
        patched.setattr(EfiVariables, "delete", guard(EfiVariables.delete))
        with suppress(PowerCutError):
            boot_once(slots, trial, "" if is_in_end else "B", b"" if is_in_end else NEW, lambda _: None)
    assert (target.root("EFI") / EFI_PATH).read_bytes() == OLD
    may_start = firmware.variables.read("BootNext") is not None
    first = boot(target, firmware, starts=starts)
    assert first == "A" or (starts and may_start), "the slot is started by a GRUB that is not on trial"
    failed = end(slots, trial)
    assert not (failed and starts), "one that starts is said to fail"
    assert boot(target, firmware) == "A"
    assert firmware.read() == before
