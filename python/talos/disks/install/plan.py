"""What an installation would do: which disk, what is on it, what will be there. Nothing is written here."""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from talos.config.model import Config
from talos.disks.disk import Disk, describe_all, read_disks
from talos.disks.install.request import InstallRequest, read_request
from talos.disks.reset import WIPE_ARGUMENT
from talos.resource.state import State
from talos.system.block.layout import (
    EPHEMERAL,
    INSTALLED,
    MIB,
    MINIMUM_SIZE,
    RECOMMENDED_SIZE,
    STATE,
    Area,
)
from talos.system.errors import UserError
from talos.system.sizes import format_size

type IsBusy = Callable[[str], bool]
"""Whether a device is in use, or a partition of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """One disk, and how it is used. A plan that exists has passed every check."""

    disk: Disk
    request: InstallRequest
    areas: tuple[Area, ...] = INSTALLED
    """The partitions that are written."""
    warnings: tuple[str, ...] = ()

    @property
    def erases(self) -> bool:
        """Whether something is lost."""
        return not self.disk.is_empty

    def text(self) -> str:
        """The plan for a person who has to agree to it."""
        disk, request = self.disk, self.request
        lines = [
            f"The system will be installed to {disk.describe()}",
            f"  chosen by {request.where}: {request.wanted}",
            f"  on it now: {disk.describe_content()}",
        ]
        if disk.is_unfinished:
            lines.append("  an installation was begun on it, and will be begun again")
        elif self.erases:
            lines.append(f"  ALL OF THIS WILL BE ERASED, {request.wipe_option} allows it")
        lines += describe_areas(self.areas, disk.spec.size)
        return "\n".join(lines + [f"  warning: {warning}" for warning in self.warnings])


def describe_areas(areas: tuple[Area, ...], size: int) -> list[str]:
    """The partitions of a system disk of so many bytes."""
    rest = size - MINIMUM_SIZE + EPHEMERAL.size
    return [
        f"  written by the installer: {', '.join(map(_describe, areas))}",
        f"  made at the first boot: {_describe(STATE)}, {EPHEMERAL.label} up to {format_size(rest)} xfs",
    ]


def _describe(area: Area) -> str:
    return " ".join(part for part in (area.label, f"{area.size // MIB} MiB", area.filesystem) if part)


async def plan_install(
    state: State, config: Config, *, areas: tuple[Area, ...] = INSTALLED, is_busy: IsBusy | None = None
) -> InstallPlan | None:
    """The plan for a config; None when it requests no installation. ``areas`` are the partitions.

    UserError: when there is not exactly one disk that fits and that may be used.
    """
    request = read_request(config)
    if request is None:
        return None
    disks = await read_disks(state)
    return make_plan(disks, request, areas=areas, is_busy=is_busy or is_device_busy)


def make_plan(
    disks: Sequence[Disk],
    request: InstallRequest,
    *,
    areas: tuple[Area, ...] = INSTALLED,
    is_busy: IsBusy,
) -> InstallPlan:
    """Choose the disk and check it."""
    disk = choose_disk(disks, request)
    _check_disk(disk, request, is_busy)
    warnings = (*request.warnings, *_list_warnings(disk))
    return InstallPlan(disk=disk, request=request, areas=areas, warnings=warnings)


def choose_disk(disks: Sequence[Disk], request: InstallRequest) -> Disk:
    """The one disk that is meant."""
    if request.path:
        found = [disk for disk in disks if request.path == disk.path or request.path in disk.spec.symlinks]
        parts = [part.name for disk in disks for part in disk.contents]
        if not found and request.path.removeprefix("/dev/") in parts:
            raise UserError(
                f"{request.path} is a partition, the system needs a disk of its own", where=request.where
            )
    else:
        matches = request.matches
        found = [disk for disk in disks if matches and not disk.obstacle and matches(disk)]
    if len(found) == 1:
        return found[0]
    what = "several disks match" if found else "no disk matches" if not request.path else "there is no disk"
    raise UserError(
        f"{what} {request.wanted}",
        where=request.where,
        hint=f"disks: {describe_all(found or disks)}",
    )


def _check_disk(disk: Disk, request: InstallRequest, is_busy: IsBusy) -> None:
    where = request.where

    def refuse(reason: str, hint: str = "") -> UserError:
        return UserError(f"{disk.describe()}: {reason}", where=where, hint=hint)

    if disk.obstacle:
        raise refuse(disk.obstacle, "name another disk")
    if disk.spec.size < MINIMUM_SIZE:
        raise refuse(f"is too small, the partitions need {format_size(MINIMUM_SIZE)}")
    if is_busy(disk.path):
        raise refuse("is in use", "something on it is mounted, or it is part of another device")
    if disk.is_marked:  # such as one that was connected after the boot: nothing is installed over a system
        raise refuse("has an installed system", f"the kernel argument {WIPE_ARGUMENT}=system erases it")
    if not (request.wipe or disk.is_empty or disk.is_unfinished):
        option = request.wipe_option
        hint = f"{option}: true erases all of it" if option else f"talosctl wipe disk {disk.id} erases it"
        raise refuse(f"is not empty: {disk.describe_content()}", hint)


def _list_warnings(disk: Disk) -> tuple[str, ...]:
    if disk.spec.size >= RECOMMENDED_SIZE:
        return ()
    size, wanted = format_size(disk.spec.size), format_size(RECOMMENDED_SIZE)
    return (f"the disk has {size}, {wanted} are recommended: container images will soon fill it",)


def is_device_busy(path: str) -> bool:
    """Whether the device or a partition on it is mounted, or part of another device.

    Opening it exclusively fails while anything else has it open.
    """
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False
