"""The system that runs, as what is installed: by the boot loader that has started it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from talos.disks.install.grub import GrubSystem
from talos.disks.install.job import System
from talos.disks.install.source import RunningSystem, load_source
from talos.disks.install.uki import EfiFile, UkiSystem
from talos.resource import kinds
from talos.resource.state import State
from talos.system.block.target import MOUNTS
from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.system.mounts import HARDENED, MountPoint, Mounts
from talos.system.pe import Program
from talos.system.version import get_version
from talos.upgrade.slots.port import Slots
from talos.upgrade.slots.systemd_boot.entry import FOLDER, LOADER_PATH, PROFILE_MARK
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.slots import SystemdBootSlots

_MEDIUM = MOUNTS / "medium"
_HINT = "leave the medium in the machine until it is installed"


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
    device = await _find_device(state, firmware.partition)
    await trio.to_thread.run_sync(_mount, mounts, device)
    try:
        yield await trio.to_thread.run_sync(make_uki_system, _MEDIUM, device, running, firmware)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_unmount, mounts)


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
                raise UserError(str(error), where=image.where, hint=_HINT) from None
        if found != running.hash_initramfs():
            raise UserError("is not the system that runs", where=image.where, hint=_HINT)

    return UkiSystem(
        image=image, loader=_describe(root, device, LOADER_PATH), check_image=check, firmware=firmware
    )


def _describe(root: Path, device: str, name: str) -> EfiFile:
    path, where = root / name, f"{device}: {name or FOLDER}"
    if not (name and path.is_file()):
        raise UserError("there is no such file to install from", where=where, hint=_HINT)
    return EfiFile(where=where, path=path, size=path.stat().st_size, sha256=hash_file(path))


async def _find_device(state: State, partition: str) -> str:
    for volume in await state.list(kinds.DISCOVERED_VOLUME):
        if partition and volume.spec.partition_uuid.lower() == partition.lower():
            return volume.spec.dev_path
    raise UserError(
        "the partition that this system was started from is not there",
        where=f"install: {partition or 'no partition'}",
        hint=_HINT,
    )


def _mount(mounts: Mounts, device: str) -> None:
    MOUNTS.mkdir(mode=0o700, parents=True, exist_ok=True)
    mounts.mount(MountPoint(source=device, target=str(_MEDIUM), type="vfat", options=(*HARDENED, "ro")))


def _unmount(mounts: Mounts) -> None:
    mounts.unmount(str(_MEDIUM))
    _MEDIUM.rmdir()
