"""A machine that systemd-boot starts, over its boots: META in a file, its disk in folders."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, override

import trio
from tests.unit.disks.install.test_release import make_release
from tests.unit.disks.install.world import FolderTarget
from tests.unit.pki.programs import make_uki
from tests.unit.upgrade.slots.test_boot_entry import make_table

from talos.machined.logs.last_boot import LastBoot
from talos.machined.node.meta_store import MetaStore
from talos.resource.memory.state import MemoryState
from talos.system.block.layout import MIB
from talos.system.block.meta import make_meta
from talos.system.block.target import BlockTarget
from talos.system.efi_variables import EfiVariables
from talos.system.logging import Log
from talos.testing.mounts import MemoryMounts
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.open_keys import OpenKey, OpenKeys
from talos.upgrade.slots.systemd_boot.entry import LOADER_PATH
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.slots import SystemdBootSlots
from talos.upgrade.slots.systemd_boot.starts import StartCount

from .loader import Loader, Start, count_start, start_loader


async def run_nothing(argv: Sequence[str], stdin: bytes) -> Any:
    raise AssertionError(f"{argv} is run")


OLD, NEW = b"MZ old", b"MZ new"
NOTHING = LastBoot()


class Slots(SystemdBootSlots):
    """Those of a disk made of folders."""

    def __init__(
        self,
        state: MemoryState,
        target: FolderTarget,
        firmware: Firmware,
        starts: StartCount,
        log: Log,
        keys: OpenKeys,
    ) -> None:
        super().__init__(state, run_nothing, MemoryMounts(), log, keys)
        self._target, self.firmware, self.starts = target, firmware, starts

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
    starts: StartCount
    lines: list[str] = field(default_factory=list[str])
    keys: OpenKeys = field(default_factory=dict[str, OpenKey])
    """Of encrypted volumes in use."""
    started_by: bytes = b""
    """The boot loader of the last boot."""

    @property
    def loader(self) -> bytes:
        """The one that firmware starts, as a rule."""
        return (self.target.root("EFI") / LOADER_PATH).read_bytes()

    def start(self, broken: bytes = b"") -> Start:
        """What firmware and systemd-boot start, up to early init. A ``broken`` boot loader does not start."""
        root, firmware = self.target.root("EFI"), self.firmware
        self.started_by = start_loader(root, firmware.settings, firmware.loader, broken)
        start = Loader(root, firmware.loader).start()
        assert start is not None
        if not start.is_trial:
            count_start(firmware.loader, self.starts.variables)
        return start

    async def boot(self, broken: bytes = b"", last: LastBoot = NOTHING) -> Upgrades:
        """Start the machine; META is read."""
        start = self.start(broken)

        async def list_checks() -> Sequence[str]:
            await trio.lowlevel.checkpoint()
            return ("apid",)

        async def keep_logs(_: str) -> None:
            await trio.lowlevel.checkpoint()

        state, store, log = MemoryState(), MetaStore(), Log(write=self.lines.append)
        await store.load(str(self.folder / "meta"))
        upgrades = Upgrades(
            state=state,
            meta=store,
            slots=Slots(state, self.target, self.firmware, self.starts, log, self.keys),
            publish=lambda _: None,
            log=log,
            cmdline="pti=on talos.trial" if start.is_trial else "pti=on",
            running=start.slot,
            is_repeated=self.starts.is_repeated(),
            list_checks=list_checks,
            keep_logs=keep_logs,
        )
        await upgrades.begin(last)
        return upgrades

    async def upgrade(
        self, upgrades: Upgrades, version: str, loader: bytes = b"", *, force: bool = False
    ) -> None:
        """Install a release to the other slot."""
        folder = self.folder / version
        folder.mkdir()
        files = {"vmlinuz.efi": make_uki(version)} | ({"systemd-boot.efi": loader} if loader else {})
        release = make_release(folder, files, version)
        install = await upgrades.prepare(release, force=force)
        await install(self.lines.append)


def make_machine(folder: Path) -> Machine:
    """A system in slot A, on a disk in this folder."""
    target, variables = FolderTarget(folder / "disk", MIB), folder / "variables"
    variables.mkdir()
    for name in ("EFI/Linux", "loader"):
        (target.root("EFI") / name).mkdir(parents=True)
    (target.root("EFI") / "EFI/Linux/talos-a.efi").write_bytes(make_uki("v1.15.0"))
    (target.root("EFI") / "loader/loader.conf").write_text("default talos-a.efi\n")
    (target.root("EFI") / LOADER_PATH).parent.mkdir()
    (target.root("EFI") / LOADER_PATH).write_bytes(OLD)
    with target.open() as disk:
        disk.write(make_table(sector_size=512))
    (folder / "meta").write_bytes(make_meta({}).ljust(MIB, b"\0"))
    firmware = Firmware(
        settings=EfiVariables(variables, "settings"),
        databases=EfiVariables(variables, "databases"),
        loader=EfiVariables(variables, "loader"),
    )
    firmware.settings.make("BootOrder", b"\0\0")
    return Machine(folder, target, firmware, StartCount(EfiVariables(variables, "starts")))
