"""The system disk of a machine: what is written there for GRUB, and read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, override

import trio

from talos.config.active import load_config
from talos.config.model import Config
from talos.resource.state import State
from talos.system.block.partitions import Run
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.upgrade.release.layer import Release
from talos.upgrade.release.manifest import CMDLINE, INITRAMFS, KERNEL
from talos.upgrade.slots.port import Report, SlotChoice, drop
from talos.upgrade.slots.target import SECTOR, SystemTarget
from talos.upgrade.state import SLOTS

MAX_CMDLINE = 2048
"""Bytes of the kernel's arguments in a release; the kernel takes 2048 itself."""

EFI_IMAGE, MAX_EFI_IMAGE = "BOOTX64.EFI", 16 << 20
"""The boot loader for UEFI in a release, and bytes that are read of it at most."""

if TYPE_CHECKING:
    from talos.system.block.target import BlockTarget
    from talos.upgrade.slots.grub.boot import BootPartition, SlotContent

type Write = Callable[[Report], None]
"""Writes a slot, blocking, and reports its steps. UserError, OSError; the slot has then what it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrubState(SlotChoice):
    """The slots as GRUB has them.

    ``count`` is the starts that were not confirmed, this one among them, 0 without a counter; ``damage`` is
    what is wrong with the environment that has it; ``is_equal`` is whether GRUB finds the same on each half
    of a mirror; ``has_failed_loader`` is whether a new boot loader on trial did not come up.
    """

    count: int = 0
    damage: str = ""
    is_equal: bool = True
    has_failed_loader: bool = False


class GrubDisk(Protocol):
    """A disk that GRUB starts, for :class:`~talos.upgrade.slots.grub.slots.GrubSlots`. UserError, OSError."""

    async def read(self) -> GrubState:
        """What can be booted; UserError when the choice of slots can't be read."""
        ...

    async def prepare(self, release: Release, slot: str) -> Write:
        """What writes a release to a slot."""
        ...

    async def read_boot_loader(self, release: Release) -> bytes:
        """The boot loader of a release that can be tried once; empty without one."""
        ...

    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        """Have a slot booted the next time and only then; without one, the default.

        By this boot loader, where it is another than the present one and can be tried.
        """
        ...

    async def end_boot_loader_trial(self, *, has_failed: bool) -> None:
        """Remove what is left of a new boot loader's trial, which is over.

        ``has_failed`` is that of :class:`GrubState`: this boot loader is left out from now on.
        """
        ...

    async def make_default(self, slot: str) -> None:
        """Boot a slot from now on."""
        ...

    async def reset_boot_count(self) -> None:
        """Reset the count of starts."""
        ...

    async def restore(self, versions: Mapping[str, str], default: str) -> None:
        """Write the choice of slots anew."""
        ...

    async def update_boot_loader(self) -> None:
        """Write the boot loader of the running system to the disk."""
        ...

    def open_target(self, path: str, sector_size: int) -> "BlockTarget":
        """A disk that a system is written to."""
        ...


class SystemDisk(SystemTarget, GrubDisk):
    """The system disk. What writes disks is loaded by need: seldom."""

    def __init__(self, state: State, run: Run, mounts: Mounts, log: Log) -> None:
        super().__init__(state, run, mounts)
        self._log = log

    @override
    async def read(self) -> GrubState:
        found = await trio.to_thread.run_sync((await self._find()).read)
        return GrubState(
            versions={slot: entry.version for slot, entry in found.entries.items()},
            default=found.default,
            count=found.environment.count,
            damage=found.damage,
            is_equal=found.is_equal,
            has_failed_loader=found.environment.waits_for_trial_loader,
        )

    @override
    async def prepare(self, release: Release, slot: str) -> Write:
        return partial((await self._find()).write, await self._make_content(release, slot))

    @override
    async def read_boot_loader(self, release: Release) -> bytes:
        layer = release.layer
        if EFI_IMAGE not in layer.files or layer.files[EFI_IMAGE].size > MAX_EFI_IMAGE:
            return b""
        return await trio.to_thread.run_sync(lambda: b"".join(layer.read(EFI_IMAGE)))

    @override
    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        from talos.upgrade.slots.grub.loader_trial import PLACE, boot_once
        from talos.upgrade.slots.loader_trial import BootLoaderTrial

        slots, trial = await self._find(), BootLoaderTrial(await self.find_target(), PLACE)
        lines: list[str] = []
        await trio.to_thread.run_sync(boot_once, slots, trial, slot, boot_loader, lines.append)
        for line in lines:
            report(line)

    @override
    async def end_boot_loader_trial(self, *, has_failed: bool) -> None:
        from talos.upgrade.slots.grub.loader_trial import PLACE, end_trial
        from talos.upgrade.slots.loader_trial import BootLoaderTrial

        slots, trial = await self._find(), BootLoaderTrial(await self.find_target(), PLACE)
        await trio.to_thread.run_sync(partial(end_trial, slots, trial, has_failed=has_failed))

    @override
    async def make_default(self, slot: str) -> None:
        await trio.to_thread.run_sync((await self._find()).make_default, slot)

    @override
    async def reset_boot_count(self) -> None:
        await trio.to_thread.run_sync((await self._find()).reset_boot_count)

    @override
    async def restore(self, versions: Mapping[str, str], default: str) -> None:
        slots = await self._find()
        # Not above: what writes disks is loaded by need.
        from talos.upgrade.slots.grub.config import Entry, make_arguments
        from talos.upgrade.slots.grub.loader import DIRECTORY

        cmdline = (DIRECTORY / CMDLINE).read_text(encoding="ascii").strip()
        arguments = make_arguments(cmdline, find_arguments(await load_config(self.state)))
        entries = [
            Entry(slot=slot, version=versions.get(slot, "unknown"), arguments=arguments) for slot in SLOTS
        ]
        await trio.to_thread.run_sync(slots.restore, entries, default)

    @override
    async def update_boot_loader(self) -> None:
        from talos.upgrade.slots.grub.loader import load_images
        from talos.upgrade.slots.grub.loader_update import update_boot_loader

        target = await self.find_target()

        def update() -> None:
            update_boot_loader(target, load_images(), lambda line: self._log.info(f"boot loader: {line}"))

        await trio.to_thread.run_sync(update)

    async def _find(self) -> "BootPartition":
        from talos.upgrade.slots.grub.boot import BootPartition

        return BootPartition(self.open_target((await self.find_disk()).dev_path, SECTOR))

    async def _make_content(self, release: Release, slot: str) -> "SlotContent":
        from talos.upgrade.slots.grub.boot import SlotContent
        from talos.upgrade.slots.grub.config import Entry, make_arguments

        layer = release.layer
        if layer.files[CMDLINE].size > MAX_CMDLINE:
            raise UserError(f"its {CMDLINE} is too long", where=f"image {release.name}")
        cmdline = await trio.to_thread.run_sync(lambda: b"".join(layer.read(CMDLINE)))
        extra = find_arguments(await load_config(self.state))
        arguments = make_arguments(cmdline.decode("ascii", "replace").strip(), extra)
        names = (KERNEL, INITRAMFS)
        return SlotContent(
            entry=Entry(slot=slot, version=release.manifest.version, arguments=arguments),
            files={name: partial(layer.read, name) for name in names},
            digests={name: layer.files[name].sha256 for name in names},
        )


def find_arguments(config: Config | None) -> tuple[str, ...]:
    """The kernel's arguments that a config adds."""
    install = config.machine.install if config and config.machine else None
    return (install.extra_kernel_args if install else None) or ()
