"""The system that runs, as what is installed: by the boot loader that has started it."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import trio

from talos.disks.install.grub import GrubSystem
from talos.disks.install.job import System
from talos.disks.install.medium import HINT, find_medium, open_medium
from talos.disks.install.source import RunningSystem, load_source
from talos.disks.install.uki import EfiFile, UkiSystem
from talos.resource import kinds
from talos.resource.state import State
from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.system.mounts import Mounts
from talos.system.pe import Program
from talos.system.version import get_version
from talos.upgrade.slots.port import Slots
from talos.upgrade.slots.systemd_boot.entry import FOLDER, LOADER_PATH, PROFILE_MARK
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.slots import SystemdBootSlots


@asynccontextmanager
async def open_running(state: State, mounts: Mounts, slots: Slots) -> AsyncGenerator[System]:
    """The system, while its files can be read; UserError when they are not there.

    A UKI is not in memory as a file: it and its boot loader are read from the medium again.
    """
    running = await trio.to_thread.run_sync(load_source, get_version().tag)
    if not isinstance(slots, SystemdBootSlots):
        yield GrubSystem(running)
        return
    firmware = slots.firmware
    volumes = [volume.spec for volume in await state.list(kinds.DISCOVERED_VOLUME)]
    medium, stack = find_medium(volumes, firmware.partition), ExitStack()
    root = await trio.to_thread.run_sync(stack.enter_context, open_medium(mounts, medium))
    try:
        yield await trio.to_thread.run_sync(make_uki_system, root, medium.device, running, firmware)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(stack.close)


def make_uki_system(root: Path, device: str, running: RunningSystem, firmware: Firmware) -> UkiSystem:
    """The UKI and the boot loader of a medium, whose files are at ``root``; UserError when it has none."""
    name = firmware.entry.partition(PROFILE_MARK)[0]
    image = _describe(root, device, f"{FOLDER}/{name}" if name else "")

    def check() -> None:
        running.check()
        with image.path.open("rb") as file:
            try:
                found = Program(file, image.size).hash_section(".initrd")
            except ValueError as error:
                raise UserError(str(error), where=image.where, hint=HINT) from None
        if found != running.hash_initramfs():
            raise UserError("is not the system that runs", where=image.where, hint=HINT)

    return UkiSystem(
        image=image, loader=_describe(root, device, LOADER_PATH), check_image=check, firmware=firmware
    )


def _describe(root: Path, device: str, name: str) -> EfiFile:
    path, where = root / name, f"{device}: {name or FOLDER}"
    if not (name and path.is_file()):
        raise UserError("there is no such file to install from", where=where, hint=HINT)
    return EfiFile(where=where, path=path, size=path.stat().st_size, sha256=hash_file(path))
