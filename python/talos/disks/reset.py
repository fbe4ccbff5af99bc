"""Reset: which disks and partitions are erased, and erasing them."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.machine.machine_pb2 import ResetRequest
from talos.disks.disk import Content, Disk, find_installed_disk, read_disks
from talos.disks.raid.system import map_members
from talos.resource.kinds import VOLUME_STATUS
from talos.resource.state import State
from talos.system.block.layout import DEDICABLE, EFI, EPHEMERAL, MARKS
from talos.system.block.wipe import WipeMethod, destroy_keys, wipe_device, wipe_edges
from talos.system.errors import UserError
from talos.system.logging import Log

WIPE_ARGUMENT = "talos.experimental.wipe"
SEPARATE = (EPHEMERAL.label, *DEDICABLE)
"""Volumes of the system that may be on other disks than META."""
_SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Partitions of a disk that are erased; without ``parts`` all of it."""

    disk: Disk
    parts: tuple[Content, ...] = ()

    def describe(self) -> tuple[str, ...]:
        """What is lost, one line each."""
        name = "the system disk" if self.disk.is_system else "a disk with a volume of the system,"
        return tuple(f"{part.name} ({part.label})" for part in self.parts) or (
            f"{name} {self.disk.describe()}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """What a reset erases, of the system first, from the disk with META on; ``user_disks`` are devices."""

    erasures: tuple[Erasure, ...] = ()
    user_disks: tuple[str, ...] = ()
    graceful: bool = True
    reboot: bool = False


async def plan_reset(state: State, request: ResetRequest) -> ResetPlan:
    """Check a request against the existing disks. UserError for what is impossible."""
    labels = [spec.label for spec in request.system_partitions_to_wipe if spec.wipe]
    devices = [*request.user_disks_to_wipe]
    if request.mode == ResetRequest.USER_DISKS:
        _refuse(labels, "USER_DISKS", "SystemPartitionsToWipe")
        if not devices:
            raise UserError(
                "no disk is named", where="user_disks_to_wipe", hint="name disks such as /dev/sdb"
            )
    if request.mode == ResetRequest.SYSTEM_DISK:
        _refuse(devices, "SYSTEM_DISK", "UserDisksToWipe")
    disks = await read_disks(state)
    volumes = {volume.id: volume.spec for volume in await state.list(VOLUME_STATUS)}
    is_of_users = request.mode == ResetRequest.USER_DISKS
    return ResetPlan(
        erasures=() if is_of_users else _plan_erasures(disks, labels, volumes),
        user_disks=tuple(_find_user_disk(disks, device) for device in devices),
        graceful=request.graceful,
        reboot=request.reboot,
    )


def _plan_erasures(
    disks: Sequence[Disk], labels: Sequence[str], volumes: Mapping[str, block_pb2.VolumeStatusSpec]
) -> tuple[Erasure, ...]:
    """Partitions with these labels, or without any all disks with a volume of the system. UserError."""
    system = next((disk for disk in disks if disk.is_system), None)
    labels = [label for label in labels if not _is_folder_of_another(label, labels, volumes)]
    found = [volumes[label].location for label in labels or SEPARATE if label in volumes]
    places = {location.removeprefix("/dev/") for location in found}
    others: list[Erasure] = []
    for disk in disks:
        parts = () if disk.is_system else tuple(part for part in disk.contents if part.name in places)
        if parts:
            others.append(Erasure(disk=disk, parts=parts if labels else ()))
    elsewhere = {part.label for other in others for part in other.parts}
    here = [label for label in labels if label not in elsewhere]
    parts = find_parts(system, here, where="system_partitions_to_wipe")
    is_erased = system is not None and (bool(parts) or not labels)
    return (*([Erasure(disk=system, parts=parts)] if system and is_erased else ()), *others)


def _is_folder_of_another(
    label: str, labels: Sequence[str], volumes: Mapping[str, block_pb2.VolumeStatusSpec]
) -> bool:
    """Whether a volume is a folder of EPHEMERAL; UserError when that is not erased."""
    volume = volumes.get(label)
    if volume is None or label not in DEDICABLE or volume.type != enums.VOLUME_TYPE_DIRECTORY:
        return False
    parent = EPHEMERAL.label
    if parent not in labels:
        raise UserError(
            f'failed to reset: volume "{label}" resides on volume "{parent}", and therefore "{label}" '
            f'cannot be wiped without wiping "{parent}"'
        )
    return True


def _refuse(values: Sequence[str], mode: str, parameter: str) -> None:
    if values:
        raise UserError(
            f"reset failed: invalid input, wipe mode {mode} doesn't support {parameter} parameter"
        )


def find_parts(disk: Disk | None, labels: Sequence[str], *, where: str) -> tuple[Content, ...]:
    """The partitions of the system disk with these labels; UserError when one isn't there."""
    contents = disk.contents if disk else ()
    there = dict.fromkeys(part.label for part in contents)
    for label in labels:
        if label not in there:
            known = ", ".join(there) or "none, the system is not installed"
            raise UserError(
                f"the system disk has no partition {label}", where=where, hint=f"there are: {known}"
            )
    return tuple(part for label in labels for part in contents if part.label == label)


def plan_wipe(disks: Sequence[Disk], labels: Sequence[str]) -> tuple[Sequence[Erasure], Sequence[str]]:
    """What the kernel argument erases, of the system's disk first, and a line for all that it doesn't.

    No volume is known yet: the system's disk is the one with an installation, and partitions are found by
    their labels, those that may be on other disks on any. Several of a label are erased on the system's disk;
    on others one may be another machine's.
    """
    installed = find_installed_disk(disks)
    first = [replace(installed, is_system=True)] if installed else []
    if not labels:
        return [Erasure(disk=disk) for disk in first], [] if first else ["there is no system disk to erase"]
    found: dict[str, list[Content]] = {}
    problems: list[str] = []
    # The members of an array show its partitions, too.
    others = [disk for disk in disks if disk is not installed and not disk.array]
    for label in labels:
        places = _find_places(first, label)
        if not places and label in SEPARATE:
            places = _find_places(others, label)
            if len(places) > 1:
                names = ", ".join(part.name for _, part in places)
                text = f"several disks have a {label}, of which none is erased: {names}"
                problems.append(f"{text}; talosctl wipe disk erases one, or detach another machine's disk")
                continue
        if not places:
            problems.append(f"there is no partition {label} to erase")
        for disk, part in places:
            found.setdefault(disk.id, []).append(part)
    ordered = (*first, *others)
    return [Erasure(disk=disk, parts=tuple(found[disk.id])) for disk in ordered if disk.id in found], problems


def _find_places(disks: Sequence[Disk], label: str) -> list[tuple[Disk, Content]]:
    return [(disk, part) for disk in disks for part in disk.contents if part.label == label]


def _find_user_disk(disks: Sequence[Disk], device: str) -> str:
    where = "user_disks_to_wipe"
    for disk in disks:
        if device in (disk.path, disk.id) or device in disk.spec.symlinks:
            if disk.is_system:
                raise UserError(f"{device} is the system disk", where=where, hint="leave it out")
            if disk.is_part_of_system:
                reason = f"{device} is a member of {disk.array}, the system disk"
                raise UserError(reason, where=where, hint="leave it out")
            if disk.spec.readonly or disk.spec.cdrom:
                raise UserError(f"{device} can't be written", where=where, hint="leave it out")
            _check_no_member(disks, disk, device, where)
            return disk.path
    known = ", ".join(disk.path for disk in disks if not disk.is_system) or "none"
    raise UserError(f"there is no disk {device}", where=where, hint=f"other than the system disk: {known}")


def _check_no_member(disks: Sequence[Disk], disk: Disk, device: str, where: str) -> None:
    """UserError for a disk that is in an array, or has a partition that is: the kernel would hold it."""
    arrays = map_members({each.id: each.spec for each in disks})
    for name in (disk.id, *(part.name for part in disk.contents)):
        if name in arrays:
            array = f"/dev/{arrays[name]}"
            raise UserError(
                f"{device} is in use by the RAID array {array}",
                where=where,
                hint=f"erase {array} instead, or destroy it first: talosctl wipe md {array}",
            )


def erase(erasures: Sequence[Erasure], log: Log) -> None:
    """Erase them, of the system last, which has what marks an installation. OSError."""
    for erasure in reversed(erasures):
        for line in erasure.describe():
            log.warning("erasing", what=line)
        # Wherever it is: there is one system on a machine, so a boot loader on trial was on it.
        if EFI.label in [part.label for part in erasure.parts or erasure.disk.contents]:
            _remove_boot_entries(log)
        _erase(erasure.disk, erasure.parts)


def _remove_boot_entries(log: Log) -> None:
    """Remove the firmware's boot entries of a boot loader on trial."""
    from talos.system.efi_variables import EfiVariables
    from talos.upgrade.slots.loader_trial import remove_entries  # loaded by need: seldom

    try:
        remove_entries(EfiVariables())
    except OSError as error:
        log.warning("the firmware keeps a boot entry of an upgrade", reason=error.strerror)


def _erase(disk: Disk, parts: Sequence[Content]) -> None:
    """Erase partitions of a disk, or all of it; first the keys of volumes, then what marks an installation.

    Through the whole disk: a mount that is still in use does not prevent it.
    """
    descriptor = os.open(disk.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for part in parts or disk.contents:
            destroy_keys(descriptor, part.offset, part.size)
        for part in sorted(parts or disk.contents, key=lambda part: part.label not in MARKS):
            wipe_edges(descriptor, part.offset, part.size)
            os.fsync(descriptor)
        if not parts:
            wipe_edges(descriptor, 0, os.lseek(descriptor, 0, os.SEEK_END))
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def erase_user_disks(devices: Sequence[str], log: Callable[[str], None]) -> None:
    """Erase further disks. OSError for the first that could not be, when all were tried."""
    failed: OSError | None = None
    for device in devices:
        try:
            wipe_device(device, WipeMethod.FAST)
            log(f"{Path(device)} is erased")
        except OSError as error:
            log(f"{device} is not erased: {error.strerror}")
            failed = failed or error
    if failed is not None:
        raise failed


def parse_wipe_argument(value: str) -> tuple[str, ...]:
    """The labels of ``system:EPHEMERAL,STATE``; none for ``system``, which means the whole disk.

    UserError for anything else.
    """
    target, colon, text = value.partition(":")
    labels = tuple(label for label in text.split(",") if label)
    if target != _SYSTEM or (colon and not labels):
        raise UserError(
            f"{value!r} is not known", where=WIPE_ARGUMENT, hint="write system or system:EPHEMERAL,STATE"
        )
    return labels
