"""A release as what is installed to a disk that has no system yet."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import trio

from talos.config.active import load_config
from talos.disks.disk import read_disks
from talos.disks.install.grub import GrubSystem
from talos.disks.install.install import run_install
from talos.disks.install.job import Job, System
from talos.disks.install.plan import is_device_busy, make_plan
from talos.disks.install.request import InstallRequest
from talos.disks.install.uki import EfiFile, UkiSystem
from talos.disks.refresh import refresh_discovery
from talos.resource.state import State
from talos.system.errors import UserError
from talos.system.version import get_version
from talos.upgrade.release.layer import Layer, Release
from talos.upgrade.release.manifest import CMDLINE, INITRAMFS, KERNEL, UKI, UKI_LOADER
from talos.upgrade.slots.grub.disk import (
    EFI_IMAGE,
    MAX_CMDLINE,
    MAX_EFI_IMAGE,
    find_arguments,
)
from talos.upgrade.slots.grub.loader import BootImages, make_images
from talos.upgrade.slots.port import DiskSlots, Report, Slots, check_parts
from talos.upgrade.slots.systemd_boot.databases import NO_UPDATES
from talos.upgrade.slots.systemd_boot.release import check_programs
from talos.upgrade.slots.systemd_boot.slots import SystemdBootSlots
from talos.upgrade.slots.target import SECTOR

BOOT_FILES = {"boot.img": 512, "core.img": 1 << 20, EFI_IMAGE: MAX_EFI_IMAGE, CMDLINE: MAX_CMDLINE}
"""What a release has of the boot loader, and bytes that are read of each at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSource:
    """A release that was checked: its digests are those of the signed manifest."""

    layer: Layer
    version: str
    boot: BootImages

    @property
    def has_kernel(self) -> bool:
        """A release always has one."""
        return True

    def read_kernel(self) -> Iterator[bytes]:
        """The kernel."""
        return self.layer.read(KERNEL)

    def hash_kernel(self) -> str:
        """Its digest."""
        return self.layer.files[KERNEL].sha256

    def read_initramfs(self) -> Iterator[bytes]:
        """The initramfs."""
        return self.layer.read(INITRAMFS)

    def hash_initramfs(self) -> str:
        """Its digest."""
        return self.layer.files[INITRAMFS].sha256

    def check(self) -> None:
        """Nothing: every byte was compared when the release was loaded."""


def make_source(release: Release) -> ReleaseSource:
    """A release with its boot loader, which is read; UserError when it lacks a part."""
    where, layer = f"image {release.name}", release.layer
    found: dict[str, bytes] = {}
    for name, maximum in BOOT_FILES.items():
        if name not in layer.files:
            raise UserError(f"it lacks {name}, so it can't be installed", where=where)
        if layer.files[name].size > maximum:
            raise UserError(f"its {name} has more than {maximum} bytes", where=where)
        found[name] = b"".join(layer.read(name))
    try:
        boot = make_images(found, "it")
    except ValueError as error:
        raise UserError(str(error), where=where) from None
    return ReleaseSource(layer=layer, version=release.manifest.version, boot=boot)


class Upgrades(Protocol):
    """Those of a machine, as far as an installation is one."""

    @property
    def state(self) -> State:
        """The machine's State."""
        ...

    @property
    def slots(self) -> Slots:
        """Where systems are kept."""
        ...

    def lock(self) -> AbstractAsyncContextManager[None]:
        """UserError when another system is being written."""
        ...


def make_system(release: Release, slots: DiskSlots) -> System:
    """What is installed of a release, by the kind of boot loader that this machine has; UserError."""
    if not isinstance(slots, SystemdBootSlots):
        check_parts(release)
        return GrubSystem(make_source(release))
    check_programs(release, slots.firmware, NO_UPDATES)
    image, loader = (_find_file(release, name) for name in (UKI, UKI_LOADER))
    return UkiSystem(image=image, loader=loader, firmware=slots.firmware)


def _find_file(release: Release, name: str) -> EfiFile:
    where, layer = f"image {release.name}", release.layer
    if name not in layer.files:
        raise UserError(f"it lacks {name}, so it can't be installed", where=where)
    file = layer.files[name]
    return EfiFile(
        where=f"{where}: {name}",
        path=layer.path,
        start=layer.offsets[name],
        size=file.size,
        sha256=file.sha256,
    )


async def install_release(upgrades: Upgrades, release: Release, disk: str, report: Report) -> None:
    """Install a release to a disk without a system. UserError, OSError; then it is not installed."""
    slots, architecture = upgrades.slots, get_version().arch
    if not isinstance(slots, DiskSlots):
        raise UserError("this platform has no disks to install to", where="destination.disk")
    if release.manifest.architecture != architecture:
        reason = f"the release is for {release.manifest.architecture}, this machine is {architecture}"
        raise UserError(reason, where=f"image {release.name}")
    request = InstallRequest(
        where="destination.disk",
        wanted=disk,
        path=disk,
        wipe=False,
        wipe_option="",
        arguments=find_arguments(await load_config(upgrades.state)),
    )
    async with upgrades.lock():
        disks = await read_disks(upgrades.state)
        plan = make_plan(disks, request, areas=slots.areas, is_busy=is_device_busy)
        for line in plan.text().splitlines():
            report(line)
        system = await trio.to_thread.run_sync(make_system, release, slots)
        target = slots.open_target(plan.disk.path, plan.disk.spec.sector_size or SECTOR)
        await run_install(Job(plan=plan, system=system, target=target, log=partial(_report, report)))
        await refresh_discovery(upgrades.state)


def _report(report: Report, line: str) -> None:
    """Some steps run in threads."""
    if trio.lowlevel.in_trio_task():
        report(line)
    else:
        trio.from_thread.run_sync(report, line)
