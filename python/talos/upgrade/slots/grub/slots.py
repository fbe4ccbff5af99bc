"""Two slots that GRUB starts: what GRUB needs of its own is done within the verbs of the port.

Its count of starts is set back, a config or an environment that is damaged is written anew, and a boot loader
that was tried is removed or replaces the present one.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, override

import trio

from talos.system.block.layout import INSTALLED, Area
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade.release.layer import Release
from talos.upgrade.slots.grub.disk import GrubDisk, GrubState
from talos.upgrade.slots.open_keys import Prepared
from talos.upgrade.slots.port import Report, SlotChoice, Slots, SlotState, check_parts, drop
from talos.upgrade.state import ATTEMPTS, MAX_COUNT

if TYPE_CHECKING:
    from talos.system.block.target import BlockTarget

LOADER_FAILED = "its boot loader did not come up; an upgrade to it keeps the present one from now on"


class GrubSlots(Slots):
    """The slots of a system disk. Nothing else changes them while the system runs."""

    def __init__(self, disk: GrubDisk, log: Log) -> None:
        self.disk = disk
        self._log = log
        self._found: GrubState | None = None
        """As they were read last."""

    @override
    async def read(self, repair: SlotChoice | None = None) -> SlotState:
        found = self._found = await self._read(repair)
        return SlotState(
            versions=found.versions,
            default=found.default,
            failed_starts=ATTEMPTS if found.count > ATTEMPTS else 0,
            failure=LOADER_FAILED if found.has_failed_loader else "",
        )

    async def _read(self, repair: SlotChoice | None) -> GrubState:
        try:
            return await self.disk.read()
        except UserError as error:
            if repair is None:
                raise
            reason = str(error)
        await self.disk.restore(repair.versions, repair.default)
        self._log.error("the boot loader's config was damaged and is written anew", reason=reason)
        return await self.disk.read()

    @override
    async def check(self, release: Release) -> Sequence[Prepared]:
        check_parts(release)
        return ()  # firmware with Secure Boot does not start GRUB, and no release changes its keys

    @override
    async def write(
        self, release: Release, slot: str, report: Report, keys: Sequence[Prepared] = ()
    ) -> bytes:
        boot_loader = await self.disk.read_boot_loader(release)
        write = await self.disk.prepare(release, slot)
        await trio.to_thread.run_sync(write, partial(trio.from_thread.run_sync, report))
        return boot_loader

    @override
    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        await self.disk.boot_once(slot, boot_loader, report)

    @override
    async def make_default(self, slot: str, *, with_loader: bool = False) -> None:
        """The slot first and the count last: after a power cut between them the same slot is started."""
        found = self._found or await self._read(None)
        if with_loader:
            await self._end_loader_trial(found)
            await self._update_loader()
        if slot != found.default:
            await self.disk.make_default(slot)
        elif found.count == MAX_COUNT:
            self._log.warning(f"neither slot came up in {ATTEMPTS} starts before this one")
        if found.damage:
            self._log.warning("GRUB's environment is written anew", reason=found.damage)
        if found.count or found.damage or not found.is_equal:
            await self.disk.reset_boot_count()
        if not with_loader:
            await self._end_loader_trial(found)
        self._found = None

    @property
    def areas(self) -> tuple[Area, ...]:
        """The partitions of a disk that GRUB starts."""
        return INSTALLED

    def open_target(self, path: str, sector_size: int) -> "BlockTarget":
        """A disk that a system is written to."""
        return self.disk.open_target(path, sector_size)

    async def _end_loader_trial(self, found: GrubState) -> None:
        if found.has_failed_loader:
            self._log.warning("the upgrade's boot loader did not come up and is left out from now on")
        try:
            await self.disk.end_boot_loader_trial(has_failed=found.has_failed_loader)
        except (UserError, OSError) as error:
            self._log.warning("what is left of a new boot loader's trial can't be removed", reason=str(error))

    async def _update_loader(self) -> None:
        """Have GRUB replaced. After a failure it is what it was."""
        try:
            await self.disk.update_boot_loader()
        except (UserError, OSError) as error:
            self._log.warning("the boot loader is not replaced by this release's", reason=str(error))
