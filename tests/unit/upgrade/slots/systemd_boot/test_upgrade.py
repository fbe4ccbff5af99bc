"""Upgrades of a machine that systemd-boot starts, over its boots: states and texts as with GRUB."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, override

import pytest
import trio
from tests.unit.disks.install.test_release import make_release
from tests.unit.disks.install.world import FolderTarget
from tests.unit.pki.programs import make_uki

from talos.machined.logs.last_boot import LastBoot
from talos.machined.node.meta_store import MetaStore
from talos.resource.memory.state import MemoryState
from talos.system.block.layout import MIB
from talos.system.block.meta import make_meta
from talos.system.block.target import BlockTarget
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.testing.mounts import MemoryMounts
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.slots import SystemdBootSlots
from talos.upgrade.state import Phase

from .loader import Loader


async def run_nothing(argv: Sequence[str], stdin: bytes) -> Any:
    raise AssertionError(f"{argv} is run")


class Slots(SystemdBootSlots):
    """Those of a disk made of folders."""

    def __init__(self, target: FolderTarget, firmware: Firmware, log: Log) -> None:
        super().__init__(MemoryState(), run_nothing, MemoryMounts(), log)
        self._target, self.firmware = target, firmware

    @override
    async def find_target(self) -> BlockTarget:
        await trio.lowlevel.checkpoint()
        return cast("BlockTarget", self._target)


@dataclass(slots=True)
class Machine:
    """A machine over its boots."""

    folder: Path
    target: FolderTarget
    firmware: Firmware
    lines: list[str] = field(default_factory=list[str])

    async def boot(self) -> Upgrades:
        """What systemd-boot starts; META is read."""
        start = Loader(self.target.root("EFI"), self.firmware.loader).start()
        assert start is not None

        async def list_checks() -> Sequence[str]:
            await trio.lowlevel.checkpoint()
            return ("apid",)

        async def keep_logs(_: str) -> None:
            await trio.lowlevel.checkpoint()

        store, log = MetaStore(), Log(write=self.lines.append)
        await store.load(str(self.folder / "meta"))
        upgrades = Upgrades(
            state=MemoryState(),
            meta=store,
            slots=Slots(self.target, self.firmware, log),
            publish=lambda _: None,
            log=log,
            cmdline="pti=on talos.trial" if start.is_trial else "pti=on",
            running=start.slot,
            list_checks=list_checks,
            keep_logs=keep_logs,
        )
        await upgrades.begin(LastBoot())
        return upgrades

    async def upgrade(self, upgrades: Upgrades, version: str) -> None:
        """Install a release to the other slot."""
        folder = self.folder / version
        folder.mkdir()
        release = make_release(folder, {"vmlinuz.efi": make_uki(version)}, version)
        install = await upgrades.prepare(release)
        await install(self.lines.append)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    target, variables = FolderTarget(tmp_path / "disk", MIB), tmp_path / "variables"
    variables.mkdir()
    for name in ("EFI/Linux", "loader"):
        (target.root("EFI") / name).mkdir(parents=True)
    (target.root("EFI") / "EFI/Linux/talos-a.efi").write_bytes(make_uki("v1.15.0"))
    (target.root("EFI") / "loader/loader.conf").write_text("default talos-a.efi\n")
    (tmp_path / "meta").write_bytes(make_meta({}).ljust(MIB, b"\0"))
    firmware = Firmware(
        settings=EfiVariables(variables, "settings"),
        databases=EfiVariables(variables, "databases"),
        loader=EfiVariables(variables, "loader"),
    )
    return Machine(tmp_path, target, firmware)


async def test_an_upgrade_its_trial_and_its_verdict(machine: Machine) -> None:
    first = await machine.boot()
    await first.confirm()
    await machine.upgrade(first, "v1.15.1")
    assert "v1.15.1 is in slot B, which the next reboot tries" in machine.lines
    trial = await machine.boot()
    assert (trial.current.phase, trial.running, trial.is_guarded) == (Phase.TRIAL, "B", True)
    await trial.bless()
    after = await machine.boot()
    assert (after.current.phase, after.running, after.is_guarded) == (Phase.BLESSED, "B", False)
    await after.confirm()
    assert (await after.slots.read()).default == "B"


@pytest.mark.parametrize("is_ended_by_itself", [False, True])
async def test_a_trial_that_fails(machine: Machine, is_ended_by_itself: bool) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1")
    trial = await machine.boot()
    assert trial.running == "B"
    if is_ended_by_itself:
        await trial.revert("apid is not healthy")
    after = await machine.boot()
    assert (after.current.phase, after.running) == (Phase.REVERTED, "A")
    await after.confirm()
    assert (await machine.boot()).running == "A"
    with pytest.raises(UserError, match=r"slot B holds v1\.15\.1, which was reverted"):
        await after.roll_back()
    await machine.upgrade(after, "v1.15.2")
    assert (await machine.boot()).running == "B"


async def test_back_to_the_system_before(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1")
    await (await machine.boot()).bless()
    await (await machine.boot()).roll_back()
    trial = await machine.boot()
    assert (trial.current.phase, trial.running) == (Phase.TRIAL, "A")
    await trial.bless()
    assert (await machine.boot()).running == "A"


async def test_what_is_staged_is_taken_back(machine: Machine) -> None:
    upgrades = await machine.boot()
    await machine.upgrade(upgrades, "v1.15.1")
    await upgrades.roll_back()
    after = await machine.boot()
    assert (after.current.phase, after.running) == (Phase.REVERTED, "A")


async def test_lost_settings_get_the_default_that_they_had(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1")
    await (await machine.boot()).bless()
    (machine.target.root("EFI") / "loader/loader.conf").write_bytes(b"\xff\0")
    after = await machine.boot()
    await after.confirm()
    assert (await after.slots.read()).default == "B"
    assert any(
        "the boot loader's settings were damaged and are written anew" in line for line in machine.lines
    )
