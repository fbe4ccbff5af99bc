"""A new boot loader tried once: what the firmware is given, and what is left alone."""

import os
from pathlib import Path

import pytest
from tests.unit.disks.install.world import FolderTarget
from tests.unit.upgrade.slots.firmware import NEW, NEWER, OLD, Firmware

from talos.system.efi_variables import EfiVariables
from talos.upgrade.slots.boot_entry import parse_entry
from talos.upgrade.slots.grub.loader import EFI_PATH
from talos.upgrade.slots.grub.loader_trial import PLACE
from talos.upgrade.slots.loader_trial import BootLoaderTrial, has_failed, remove_entries

TRIAL = "EFI/TALOS/GRUBX64.EFI"
CANT = "the release's boot loader can't be tried before it replaces the present one: "
WRITE = os.write


def start(trial: BootLoaderTrial, efi: bytes = NEW) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return trial.start(efi, lines.append), lines


def list_files(target: FolderTarget) -> set[str]:
    root = target.root("EFI")
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_firmware_is_given_one_entry_and_keeps_its_own(target: FolderTarget, firmware: Firmware) -> None:
    before, trial = firmware.read(), BootLoaderTrial(target, PLACE, firmware.variables)
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
    assert start(BootLoaderTrial(target, PLACE, firmware.variables), OLD) == (False, [])
    assert firmware.read() == before
    assert target.mounted == ["EFI ro"]


def test_one_that_failed_is_not_tried_again_and_another_is(target: FolderTarget, firmware: Firmware) -> None:
    trial = BootLoaderTrial(target, PLACE, firmware.variables)
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
    trial = BootLoaderTrial(target, PLACE, firmware.variables)
    tried, (line,) = start(trial)
    assert (tried, line) == (
        False,
        f"{CANT}the firmware has an entry to start next that is not this system's",
    )
    assert firmware.read() == before
    trial.end()
    assert firmware.read() == before


def test_without_uefi_it_is_said(target: FolderTarget, tmp_path: Path) -> None:
    trial = BootLoaderTrial(target, PLACE, EfiVariables(tmp_path / "none"))
    assert start(trial) == (False, [f"{CANT}the machine was not started by UEFI"])
    assert list_files(target) == {EFI_PATH}


def test_a_partition_that_can_not_be_read_is_said(
    target: FolderTarget, firmware: Firmware, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(target, "mount", refuse)
    assert start(BootLoaderTrial(target, PLACE, firmware.variables)) == (
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
    tried, (line,) = start(BootLoaderTrial(target, PLACE, firmware.variables))
    assert (tried, line) == (False, f"{CANT}[Errno 28] No space left on device")
    assert firmware.read() == before


def test_firmware_that_forgets_what_it_was_given_keeps_what_it_had(
    target: FolderTarget, firmware: Firmware, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = firmware.read()

    def forget(descriptor: int, data: bytes) -> int:
        return WRITE(descriptor, data[:4])

    monkeypatch.setattr("talos.system.efi_variables.os.write", forget)
    tried, (line,) = start(BootLoaderTrial(target, PLACE, firmware.variables))
    assert not tried
    assert "reads differently from what was written" in line
    assert firmware.read() == before


def test_a_reset_removes_the_entry(target: FolderTarget, firmware: Firmware) -> None:
    before = firmware.read()
    start(BootLoaderTrial(target, PLACE, firmware.variables))
    remove_entries(firmware.variables)
    assert firmware.read() == before
