"""A new GRUB tried once, with its slot: what is started, and what a power cut leaves."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.disks.install.world import FolderTarget
from tests.unit.upgrade.slots.firmware import NEW, NEWER, OLD, Firmware

from talos.system.efi_variables import EfiVariables
from talos.upgrade.slots import loader_trial as module
from talos.upgrade.slots.boot_entry import parse_entry
from talos.upgrade.slots.grub.boot import BootPartition
from talos.upgrade.slots.grub.config import Entry, make_config
from talos.upgrade.slots.grub.environment import (
    ENVIRONMENT,
    Environment,
    make_environment,
    parse_environment,
)
from talos.upgrade.slots.grub.loader import EFI_PATH
from talos.upgrade.slots.grub.loader_trial import PLACE, boot_once, end_trial
from talos.upgrade.slots.loader_trial import BootLoaderTrial, has_failed


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
    before, trial = firmware.read(), BootLoaderTrial(target, PLACE, firmware.variables)
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
    trial = BootLoaderTrial(target, PLACE, EfiVariables(tmp_path / "none"))
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
    before, trial = firmware.read(), BootLoaderTrial(target, PLACE, firmware.variables)
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
