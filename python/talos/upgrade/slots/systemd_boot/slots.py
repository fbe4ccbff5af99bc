"""Two slots that systemd-boot starts. A release's own is tried with its slot, and kept with its verdict.

Early init counts starts for it; the count is set back within the verbs of the port.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, override

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.resource import kinds
from talos.resource.state import State
from talos.system.block.layout import UKI_INSTALLED, Area
from talos.system.block.partitions import Run
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.upgrade.release.layer import Release
from talos.upgrade.slots.open_keys import OpenKeys, Prepared
from talos.upgrade.slots.port import Report, SlotChoice, Slots, SlotState, drop
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.next_keys import find_lasting, prepare_keys, write_keys
from talos.upgrade.slots.systemd_boot.partition import EfiPartition
from talos.upgrade.slots.systemd_boot.pcr7_model import PCR
from talos.upgrade.slots.systemd_boot.release import check_release, check_slot, write_release
from talos.upgrade.slots.systemd_boot.starts import StartCount, Starts
from talos.upgrade.slots.target import SystemTarget
from talos.upgrade.state import ATTEMPTS, MAX_COUNT

if TYPE_CHECKING:
    from talos.upgrade.slots.loader_trial import BootLoaderTrial


class SystemdBootSlots(SystemTarget, Slots):
    """The slots of a system disk. Nothing else changes them while the system runs."""

    def __init__(self, state: State, run: Run, mounts: Mounts, log: Log, keys: OpenKeys) -> None:
        super().__init__(state, run, mounts)
        self.firmware, self.starts, self._log, self._keys = Firmware(), StartCount(), log, keys

    @property
    def areas(self) -> tuple[Area, ...]:
        """The partitions of a disk that systemd-boot starts."""
        return UKI_INSTALLED

    @override
    async def read(self, repair: SlotChoice | None = None) -> SlotState:
        partition = await self._find()
        try:
            found = await trio.to_thread.run_sync(partition.read)
        except UserError as error:
            if repair is None:
                raise
            await trio.to_thread.run_sync(partition.restore, repair.default)
            self._log.error("the boot loader's settings were damaged and are written anew", reason=str(error))
            found = await trio.to_thread.run_sync(partition.read)
        count = (await trio.to_thread.run_sync(self.starts.read)).count
        failed = ATTEMPTS if count > ATTEMPTS else 0
        return SlotState(versions=found.versions, default=found.default, failed_starts=failed)

    @override
    async def check(self, release: Release) -> Sequence[Prepared]:
        partition, devices = await self._find(), await self._list_encrypted()
        openers = {name: key.slot for name, key in self._keys.items() if key.slot is not None}
        gaps = await trio.to_thread.run_sync(
            check_release, release, self.firmware, partition, devices, openers
        )
        return await prepare_keys(gaps, self._keys, f"image {release.name}", self._log)

    @override
    async def check_slot(self, slot: str) -> None:
        devices, partition = await self._list_encrypted(), await self._find()
        await trio.to_thread.run_sync(check_slot, slot, self.firmware, partition, devices)

    @override
    async def write(
        self, release: Release, slot: str, report: Report, keys: Sequence[Prepared] = ()
    ) -> bytes:
        await write_keys(keys, report)
        partition, show = await self._find(), partial(trio.from_thread.run_sync, report)
        return await trio.to_thread.run_sync(write_release, release, slot, self.firmware, partition, show)

    @override
    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        from talos.upgrade.slots.systemd_boot.loader_trial import boot_once  # loaded by need: seldom

        partition, trial, lines = await self._find(), await self._find_trial(), list[str]()
        await trio.to_thread.run_sync(self.starts.reset)
        await trio.to_thread.run_sync(boot_once, partition, trial, slot, boot_loader, lines.append)
        for line in lines:
            report(line)

    @override
    async def make_default(self, slot: str, *, with_loader: bool = False) -> None:
        """The boot loader first: after a power cut between the two it starts the old slot, as ever.

        The count last: after a power cut before that the next system does it.
        """
        partition, trial = await self._find(), await self._find_trial()
        if with_loader:
            await self._keep_loader()
        await trio.to_thread.run_sync(partition.make_default, slot)
        try:
            await trio.to_thread.run_sync(trial.end)
        except (UserError, OSError) as error:
            self._log.warning("what is left of a new boot loader's trial can't be removed", reason=str(error))
        if await trio.to_thread.run_sync(self.starts.read) == Starts(slot, MAX_COUNT):
            self._log.warning(f"neither slot came up in {ATTEMPTS} starts before this one")
        await trio.to_thread.run_sync(self.starts.reset)

    @override
    async def revoke(self, slot: str) -> None:
        from talos.upgrade.slots.systemd_boot.revocation import revoke

        lines = list[str]()
        try:
            partition, devices = await self._find(), await self._list_encrypted()
            await trio.to_thread.run_sync(revoke, partition, self.firmware, slot, devices, lines.append)
        except (UserError, OSError) as error:
            self._log.error("the firmware still starts what this release revokes", reason=str(error))
        for line in lines:
            self._log.info(line)

    @override
    async def settle_keys(self) -> None:
        if keys := [key for key in self._keys.values() if await key.has_next()]:
            partition = await self._find()
            values = await trio.to_thread.run_sync(find_lasting, self.firmware, partition)
            for key in keys if values else ():
                await key.settle(PCR, values)

    async def _keep_loader(self) -> None:
        """Have the boot loader replaced. After a failure it is what it was."""
        from talos.upgrade.slots.systemd_boot.loader_trial import keep_loader

        target, lines = await self.find_target(), list[str]()
        try:
            await trio.to_thread.run_sync(keep_loader, target, self.firmware, lines.append)
        except (UserError, OSError) as error:
            self._log.warning("the boot loader is not replaced by this release's", reason=str(error))
        for line in lines:
            self._log.info(f"boot loader: {line}")

    async def _list_encrypted(self) -> Mapping[str, str]:
        """The devices of the encrypted volumes that are open, by the volumes' names."""
        return {
            volume.id: volume.spec.location
            for volume in await self.state.list(kinds.VOLUME_STATUS)
            if volume.spec.encryption_provider == enums.ENCRYPTION_PROVIDER_LUKS2
            and volume.spec.phase == enums.VOLUME_PHASE_READY
        }

    async def _find(self) -> EfiPartition:
        return EfiPartition(await self.find_target(), self.firmware.loader)

    async def _find_trial(self) -> "BootLoaderTrial":
        from talos.upgrade.slots.loader_trial import BootLoaderTrial
        from talos.upgrade.slots.systemd_boot.loader_trial import PLACE

        return BootLoaderTrial(await self.find_target(), PLACE, self.firmware.settings)
