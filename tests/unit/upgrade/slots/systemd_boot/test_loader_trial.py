"""A new systemd-boot tried once: which one starts what, and which one stays, wherever the power is cut."""

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.disks.install.world import FolderTarget
from tests.unit.upgrade.slots.test_boot_entry import make_table

from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.upgrade.slots import efi_loader, loader_trial, vfat
from talos.upgrade.slots.boot_entry import parse_entry
from talos.upgrade.slots.loader_trial import BootLoaderTrial
from talos.upgrade.slots.systemd_boot.entry import LOADER_PATH
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.loader_trial import NOT_STARTED, PLACE, boot_once, keep_loader
from talos.upgrade.slots.systemd_boot.partition import EfiPartition

from .loader import Loader, Start, start_loader
from .test_partition import make_content, make_slots

OLD, NEW = b"MZ old", b"MZ new"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with a system in slot A, a new one in slot B, and firmware with an entry of its own."""

    slots: EfiPartition
    firmware: Firmware
    lines: list[str] = field(default_factory=list[str])

    @property
    def target(self) -> FolderTarget:
        assert isinstance(self.slots.target, FolderTarget)
        return self.slots.target

    @property
    def trial(self) -> BootLoaderTrial:
        return BootLoaderTrial(self.target, PLACE, self.firmware.settings)

    @property
    def present(self) -> bytes:
        """What firmware starts, as a rule."""
        return (self.target.root("EFI") / LOADER_PATH).read_bytes()

    def read_settings(self) -> Mapping[str, bytes | None]:
        settings = self.firmware.settings
        return {name: settings.read(name) for name in settings.list() if name != "SecureBoot"}

    def stage(self, loader: bytes = NEW) -> None:
        boot_once(self.slots, self.trial, "B", loader, self.lines.append)

    def boot(self, broken: bytes = b"") -> tuple[bytes, Start]:
        """The boot loader, and what it starts."""
        root = self.target.root("EFI")
        loader = start_loader(root, self.firmware.settings, self.firmware.loader, broken)
        start = Loader(root, self.firmware.loader).start()
        assert start is not None
        return loader, start

    def keep(self) -> None:
        keep_loader(self.target, self.firmware, self.lines.append)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    slots = make_slots(tmp_path)
    variables = slots.variables
    settings = replace(variables, vendor="settings")
    settings.make("BootOrder", struct.pack("<H", 0))
    settings.make("Boot0000", b"\1\0")
    firmware = Firmware(settings=settings, databases=replace(variables, vendor="databases"), loader=variables)
    machine = Machine(slots, firmware)
    with machine.target.open() as disk:
        disk.write(make_table(sector_size=512))
    path = machine.target.root("EFI") / LOADER_PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(OLD)
    slots.write(make_content(), lambda _: None)
    return machine


def test_one_that_starts_takes_the_place_of_the_old_one(machine: Machine) -> None:
    before = machine.read_settings()
    machine.stage()
    assert machine.lines == ["the release's boot loader is tried once, by the firmware's entry Boot0001"]
    entry = parse_entry(machine.firmware.settings.read("Boot0001") or b"")
    assert (entry.description, entry.path) == ("Talos upgrade", "/EFI/TALOS/SDBOOT.EFI")
    assert machine.present == OLD
    loader, start = machine.boot()
    assert (loader, start.slot, start.is_trial) == (NEW, "B", True)
    assert machine.present == OLD, "nothing is replaced before the verdict"
    machine.keep()
    assert machine.lines[1:] == ["EFI/EFI/BOOT/BOOTX64.EFI is replaced"]
    assert machine.present == NEW
    assert machine.read_settings() == before
    assert not list((machine.target.root("EFI") / "EFI/TALOS").iterdir())
    machine.keep()
    machine.stage()
    assert machine.read_settings() == before, "what is started anyway is not tried"


def test_one_that_does_not_start_costs_no_upgrade(machine: Machine) -> None:
    before = machine.read_settings()
    machine.stage()
    loader, start = machine.boot(broken=NEW)
    assert (loader, start.slot, start.is_trial) == (OLD, "B", True)
    machine.keep()
    assert machine.lines[1:] == [NOT_STARTED]
    assert machine.present == OLD
    assert machine.read_settings() == before
    machine.stage()
    assert machine.lines[2:] == [
        "the release's boot loader did not start here before: the present one is kept"
    ]
    assert machine.boot()[0] == OLD
    machine.stage(b"MZ newer")
    assert machine.boot()[0] == b"MZ newer"


def test_one_whose_system_is_reverted_is_tried_again(machine: Machine) -> None:
    machine.stage()
    assert machine.boot()[0] == NEW
    loader, start = machine.boot()
    assert (loader, start.slot) == (OLD, "A")
    machine.trial.end()
    machine.stage()
    assert machine.boot()[0] == NEW


def test_what_is_taken_back_is_not_started(machine: Machine) -> None:
    before = machine.read_settings()
    machine.stage()
    boot_once(machine.slots, machine.trial, "", b"", machine.lines.append)
    assert machine.read_settings() == before
    loader, start = machine.boot()
    assert (loader, start.slot, start.is_trial) == (OLD, "A", False)


def test_firmware_without_room_keeps_the_present_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = EfiVariables.make, machine.read_settings()

    def make(variables: EfiVariables, name: str, value: bytes) -> None:
        if name == "BootNext":
            raise OSError(28, "No space left on device")
        real(variables, name, value)

    monkeypatch.setattr(EfiVariables, "make", make)
    machine.stage()
    reason = "the release's boot loader can't be tried and does not replace the present one: "
    assert machine.lines == [f"{reason}[Errno 28] No space left on device"]
    assert machine.read_settings() == before
    loader, start = machine.boot()
    assert (loader, start.slot, start.is_trial) == (OLD, "B", True)
    machine.keep()
    assert machine.present == OLD


def test_one_that_firmware_would_not_start_from_its_new_place(machine: Machine) -> None:
    """It was started: what is read now is damaged."""
    before = machine.read_settings()
    machine.stage()
    machine.boot()
    machine.firmware.settings.make("SecureBoot", b"\1")
    with pytest.raises(UserError, match=r"EFI/EFI/TALOS/SDBOOT\.EFI: Secure Boot is on: it has 6 bytes"):
        machine.keep()
    assert machine.present == OLD
    assert machine.read_settings() == before


class PowerCutError(BaseException):
    """The power is cut: nothing is done any more."""


POINTS = 20
"""More than there are changes."""


def cut_power(patch: pytest.MonkeyPatch, point: int) -> list[int]:
    """End at a change, which is not made; how many were."""
    done = [0]

    def guard(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            done[0] += 1
            if done[0] == point:
                raise PowerCutError
            return real(*args, **more)

        return call

    for owner, name in (
        (EfiVariables, "make"),
        (EfiVariables, "delete"),
        (efi_loader, "replace_durably"),
        (loader_trial, "replace_durably"),
        (vfat, "flush_folder"),
        (Path, "rename"),
        (Path, "unlink"),
    ):
        patch.setattr(owner, name, guard(getattr(owner, name)))
    return done


@pytest.mark.parametrize("starts", [False, True])
def test_a_power_cut_while_it_is_staged(machine: Machine, starts: bool) -> None:
    before = machine.read_settings()
    for point in range(1, POINTS):
        with pytest.MonkeyPatch.context() as patch:
            done = cut_power(patch, point)
            with suppress(PowerCutError):
                machine.stage()
        loader, start = machine.boot(b"" if starts else NEW)
        assert loader == OLD or starts
        if start.is_trial:
            assert start.slot == "B"
            assert (loader == NEW) == starts, "a slot is on trial once the boot loader is"
        else:
            assert start.slot == "A"
            machine.trial.end()
        if done[0] < point:
            break
        assert (machine.present, machine.boot()[1].slot) == (OLD, "A")
        machine.trial.end()
        assert machine.read_settings() == before, point
        assert not (machine.target.root("EFI") / "EFI/TALOS/FAILED").exists()
    else:
        raise AssertionError("it has more changes")


def test_a_power_cut_while_it_is_kept(machine: Machine) -> None:
    before = machine.read_settings()
    for point in range(1, POINTS):
        (machine.target.root("EFI") / LOADER_PATH).write_bytes(OLD)
        machine.stage()
        assert machine.boot()[0] == NEW
        with pytest.MonkeyPatch.context() as patch:
            done = cut_power(patch, point)
            with suppress(PowerCutError):
                machine.keep()
        assert machine.present in (OLD, NEW)
        if done[0] < point:
            assert machine.present == NEW
            return
        assert machine.boot()[1].slot == "A", "the default is another change"
        machine.trial.end()
        assert machine.read_settings() == before, point
    raise AssertionError("it has more changes")
