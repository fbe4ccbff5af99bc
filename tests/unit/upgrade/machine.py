"""A machine over its boots for tests of the upgrader: META in a file, its slots and GRUB as twins."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, override

import trio

from talos.machined.logs.last_boot import LastBoot
from talos.machined.node.meta_store import MetaStore
from talos.resource.memory.state import MemoryState
from talos.system.block.meta import make_meta
from talos.system.block.target import BlockTarget
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade.release.layer import Release
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.grub.disk import GrubDisk, GrubState, Write
from talos.upgrade.slots.grub.slots import GrubSlots
from talos.upgrade.slots.port import Report, drop
from talos.upgrade.state import ATTEMPTS, MAX_COUNT, find_slot, other_slot

VERSIONS = {"A": "v1.15.0", "B": "v1.15.1"}
BROKEN = b"does not start"


@dataclass(slots=True, kw_only=True)
class FakeSlots(GrubDisk):
    """BOOT of a machine, and GRUB."""

    default: str = "A"
    next: str = ""
    count: int = 0
    is_damaged: bool = False
    is_equal: bool = True
    """Whether the halves of a mirror have the same environment."""
    reads: int = 0
    replaced: list[str] = field(default_factory=list[str])
    """The defaults at those times when the boot loader was replaced."""
    failure: Exception | None = None
    """What the boot loader can't be replaced for."""
    loader: bytes = b""
    """The boot loader that is tried with the slot that is booted once."""
    has_failed_loader: bool = False
    ended: list[str] = field(default_factory=list[str])
    """The defaults at those times when a boot loader's trial was ended."""
    versions: dict[str, str] = field(default_factory=lambda: dict(VERSIONS))

    @override
    async def read(self) -> GrubState:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        if self.is_damaged:
            raise UserError("is not the installer's", where="BOOT/grub/grub.cfg")
        return GrubState(
            versions=self.versions,
            default=self.default,
            count=self.count,
            is_equal=self.is_equal,
            has_failed_loader=self.has_failed_loader,
        )

    @override
    async def prepare(self, release: Release, slot: str) -> Write:
        await trio.lowlevel.checkpoint()
        self.versions[slot] = release.manifest.version
        return lambda report: report("written")

    @override
    async def read_boot_loader(self, release: Release) -> bytes:
        await trio.lowlevel.checkpoint()
        return f"of {release.manifest.version}".encode()

    @override
    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        await trio.lowlevel.checkpoint()
        self.next, self.count, self.loader = slot, 0, boot_loader

    @override
    async def end_boot_loader_trial(self, *, has_failed: bool) -> None:
        assert has_failed == self.has_failed_loader
        await trio.lowlevel.checkpoint()
        self.ended.append(self.default)
        if self.failure:
            raise self.failure
        self.has_failed_loader = False

    @override
    async def make_default(self, slot: str) -> None:
        await trio.lowlevel.checkpoint()
        self.default = slot

    @override
    async def reset_boot_count(self) -> None:
        await trio.lowlevel.checkpoint()
        self.count, self.is_equal = 0, True

    @override
    async def restore(self, versions: Mapping[str, str], default: str) -> None:
        await trio.lowlevel.checkpoint()
        self.default, self.versions, self.is_damaged = default, dict(versions), False

    @override
    async def update_boot_loader(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise self.failure
        self.replaced.append(self.default)

    @override
    def open_target(self, path: str, sector_size: int) -> BlockTarget:
        raise AssertionError("nothing is installed")

    def boot(self) -> str:
        """The command line that GRUB starts a slot with."""
        if self.loader == BROKEN:
            self.next, self.loader, self.has_failed_loader = "", b"", True
        trial = " talos.trial" if self.next else ""
        slot, self.next = self.next or self.default, ""
        if not trial and self.count < MAX_COUNT:
            self.count += 1
            slot = other_slot(slot) if self.count > ATTEMPTS else slot
        return f"BOOT_IMAGE=/{slot}/vmlinuz pti=on{trial}"


NOTHING = LastBoot()


@dataclass(slots=True, kw_only=True)
class Machine:
    """A machine's disk over its boots."""

    meta: Path
    slots: FakeSlots
    published: list[Any] = field(default_factory=list[Any])
    lines: list[str] = field(default_factory=list[str])
    state: MemoryState = field(default_factory=MemoryState)
    kept: list[str] = field(default_factory=list[str])
    make_store: Callable[[], MetaStore] = MetaStore

    async def boot(
        self, checks: Sequence[str] = ("apid", "network"), last: LastBoot | None = NOTHING
    ) -> Upgrades:
        """Start the machine; META is read."""

        async def keep_logs(reason: str) -> None:
            await trio.lowlevel.checkpoint()
            self.kept.append(reason)

        async def list_checks() -> Sequence[str]:
            await trio.lowlevel.checkpoint()
            return checks

        self.state = MemoryState()
        store = self.make_store()
        await store.load(str(self.meta))
        log, cmdline = Log(write=self.lines.append), self.slots.boot()
        upgrader = Upgrades(
            state=self.state,
            meta=store,
            slots=GrubSlots(self.slots, log),
            publish=self.published.append,
            log=log,
            cmdline=cmdline,
            running=find_slot(cmdline),
            list_checks=list_checks,
            keep_logs=keep_logs,
        )
        await upgrader.begin(last)
        return upgrader


def make_machine(folder: Path) -> Machine:
    """A machine whose META is in this folder."""
    meta = folder / "meta"
    meta.write_bytes(make_meta({12: b"kept"}).ljust(1 << 20, b"\0"))
    return Machine(meta=meta, slots=FakeSlots())
