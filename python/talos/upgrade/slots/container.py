"""The slots of a container node: its launcher chooses among them as a boot loader does."""

from collections.abc import Sequence
from functools import partial
from typing import override

import trio

from talos.upgrade.release.layer import Release
from talos.upgrade.release.manifest import INITRAMFS
from talos.upgrade.slots.folder import SlotFolder
from talos.upgrade.slots.open_keys import Prepared
from talos.upgrade.slots.port import Report, SlotChoice, Slots, SlotState, check_parts, drop


class FolderSlots(Slots):
    """Those of a folder. The launcher counts no starts, and its files can always be read."""

    def __init__(self, folder: SlotFolder) -> None:
        self._folder = folder

    @override
    async def read(self, repair: SlotChoice | None = None) -> SlotState:
        versions, default = await trio.to_thread.run_sync(self._folder.read)
        return SlotState(versions=versions, default=default)

    @override
    async def check(self, release: Release) -> Sequence[Prepared]:
        check_parts(release)
        return ()  # it has no TPM

    @override
    async def write(
        self, release: Release, slot: str, report: Report, keys: Sequence[Prepared] = ()
    ) -> bytes:
        read, show = release.layer.read, partial(trio.from_thread.run_sync, report)
        await trio.to_thread.run_sync(lambda: self._folder.write(slot, read(INITRAMFS), show))
        return b""  # the launcher is the host's

    @override
    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        await trio.to_thread.run_sync(self._folder.boot_once, slot)

    @override
    async def make_default(self, slot: str, *, with_loader: bool = False) -> None:
        if (await self.read()).default != slot:
            await trio.to_thread.run_sync(self._folder.make_default, slot)
