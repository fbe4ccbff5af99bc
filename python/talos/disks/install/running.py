"""The system that runs, as what is installed: by the boot loader that has started it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin

import trio

from talos.disks.install.grub import GrubSystem
from talos.disks.install.job import System
from talos.disks.install.medium import HINT, find_medium, open_medium
from talos.disks.install.source import RunningSystem, load_source
from talos.disks.install.uki import EfiFile, UkiSystem
from talos.resource import kinds
from talos.resource.state import State
from talos.system.block.target import MOUNTS
from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.system.mounts import Mounts
from talos.system.pe import Program
from talos.system.urls import without_secrets
from talos.system.version import get_version
from talos.upgrade.slots.port import Slots
from talos.upgrade.slots.systemd_boot.entry import (
    FOLDER,
    LOADER_PATH,
    NETWORK_IMAGE,
    NETWORK_LOADER,
    PROFILE_MARK,
)
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.slots import SystemdBootSlots

NETWORK_HINT = "serve the folder of `nix run .#sign-netboot` as it is until the machine is installed"

type Load = Callable[[str, Path], Awaitable[None]]
"""Writes what a web server has at a URL to a file. UserError, OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The UKI that was started, and systemd-boot. ``hint`` is the remedy where they are missing."""

    image: EfiFile
    loader: EfiFile
    hint: str


@asynccontextmanager
async def open_running(
    state: State, mounts: Mounts, slots: Slots, url: str, load: Load
) -> AsyncGenerator[System]:
    """The system, while its files can be read; UserError when they are not there.

    A UKI is not in memory as a file: it and its boot loader are read from where firmware has found them. That
    is the ``url`` of one for network boot, unless firmware has named a partition.
    """
    running = await trio.to_thread.run_sync(load_source, get_version().tag)
    if not isinstance(slots, SystemdBootSlots):
        yield GrubSystem(running)
        return
    firmware = slots.firmware
    is_network = url and not firmware.partition
    opened = open_network(url, load) if is_network else _open_medium(state, mounts, firmware)
    async with opened as programs:
        yield await trio.to_thread.run_sync(make_uki_system, programs, running, firmware)


@asynccontextmanager
async def _open_medium(state: State, mounts: Mounts, firmware: Firmware) -> AsyncGenerator[Programs]:
    volumes = [volume.spec for volume in await state.list(kinds.DISCOVERED_VOLUME)]
    medium, stack = find_medium(volumes, firmware.partition), ExitStack()
    root = await trio.to_thread.run_sync(stack.enter_context, open_medium(mounts, medium))
    try:
        yield await trio.to_thread.run_sync(find_programs, root, medium.device, firmware.entry)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(stack.close)


@asynccontextmanager
async def open_network(url: str, load: Load, folder: Path = MOUNTS) -> AsyncGenerator[Programs]:
    """The programs of a server from which firmware has loaded the UKI; systemd-boot lies beside it."""
    with TemporaryDirectory(prefix="network-", dir=make_folder(folder)) as root:
        sources = {NETWORK_IMAGE: url, NETWORK_LOADER: urljoin(url, NETWORK_LOADER)}
        files: dict[str, EfiFile] = {}
        for name, source in sources.items():
            path, where = Path(root, name), without_secrets(source)
            await load(source, path)
            files[name] = await trio.to_thread.run_sync(_describe, path, where, NETWORK_HINT)
        yield Programs(image=files[NETWORK_IMAGE], loader=files[NETWORK_LOADER], hint=NETWORK_HINT)


def find_programs(root: Path, device: str, entry: str) -> Programs:
    """The programs of a medium, whose files are at ``root``, that was started by this entry; UserError."""
    name = entry.partition(PROFILE_MARK)[0]
    image = f"{FOLDER}/{name}" if name else FOLDER
    files = (_describe(root / path, f"{device}: {path}", HINT) for path in (image, LOADER_PATH))
    return Programs(image=next(files), loader=next(files), hint=HINT)


def make_uki_system(programs: Programs, running: RunningSystem, firmware: Firmware) -> UkiSystem:
    """The system to install, whose check compares the UKI with the system that runs."""
    image = programs.image

    def check() -> None:
        running.check()
        with image.path.open("rb") as file:
            try:
                found = Program(file, image.size).hash_section(".initrd")
            except ValueError as error:
                raise UserError(str(error), where=image.where, hint=programs.hint) from None
        if found != running.hash_initramfs():
            raise UserError("is not the system that runs", where=image.where, hint=programs.hint)

    return UkiSystem(image=image, loader=programs.loader, check_image=check, firmware=firmware)


def make_folder(path: Path) -> Path:
    """The folder, made where it is not there; of root alone."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _describe(path: Path, where: str, hint: str) -> EfiFile:
    if not path.is_file():
        raise UserError("there is no such file to install from", where=where, hint=hint)
    return EfiFile(where=where, path=path, size=path.stat().st_size, sha256=hash_file(path))
