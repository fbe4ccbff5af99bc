"""Which disks a volume may be on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import DISK
from talos.disks.disk import Disk
from talos.disks.volumes.dedicated import is_dedicated
from talos.disks.volumes.specs import DEVICE, SELECTOR
from talos.disks.volumes.user import find_place, is_user_volume
from talos.system.errors import UserError


def name_volume(volume: str) -> str:
    """The document of a volume, such as ``UserVolumeConfig db``."""
    return find_place(volume) or f"VolumeConfig {volume}"


def find_devices(
    disks: Sequence[Disk],
    volume: str,
    spec: block_pb2.VolumeConfigSpec,
    annotations: Mapping[str, str],
    system: str,
) -> list[str]:
    """The devices of the disks that may have a volume, the ``system``'s first; UserError when none does."""
    where = name_volume(volume)
    if device := annotations.get(DEVICE, ""):
        return choose_device(disks, device, system, where)
    selector = annotations.get(SELECTOR, "")
    return choose_disks(disks, spec, selector, system, f"{where} provisioning.diskSelector.match")


def choose_device(disks: Sequence[Disk], device: str, system: str, where: str) -> list[str]:
    """The one disk that is named; UserError when there is none, or it is the ``system``'s."""
    if device == system:
        raise UserError(f"{device} is the system disk", where=where, hint="name another disk")
    if not any(disk.path == device and (disk.is_array or not disk.obstacle) for disk in disks):
        raise UserError(f"{device} is no disk that can be used", where=where, hint="talosctl get disks")
    return [device]


def choose_disks(
    disks: Sequence[Disk], spec: block_pb2.VolumeConfigSpec, selector: str, system: str, where: str
) -> list[str]:
    """The devices of the disks that may have a volume, the system's first; UserError when none does.

    Without a ``selector`` it is the ``system``'s disk. A user's partition that exists is where it is,
    whatever the selector is by now: another one of its name would hide what was written. So is that of etcd
    and others. ``where`` names the selector for an error.
    """
    takes_all = spec.type == enums.VOLUME_TYPE_DISK
    usable = [
        replace(disk, is_system=disk.path == system)
        for disk in disks
        if not disk.obstacle or disk.is_array or (takes_all and disk.is_logical)
    ]
    if is_dedicated(spec) or (is_user_volume(spec) and spec.type == enums.VOLUME_TYPE_PARTITION):
        label = spec.provisioning.partition_spec.label
        found = [disk.path for disk in usable if any(part.label == label for part in disk.contents)]
        if found:
            return found
    if not selector:
        return [system]
    expression = compile_expression(selector, DISK, where=where)
    found = [disk for disk in usable if expression.is_true(disk.variables())]
    if not found:
        raise UserError(f"no disk matches {selector}", where=where)
    if takes_all and all(disk.is_system for disk in found):
        raise UserError(f"{system} is the system disk", where=where, hint="add && !system_disk")
    if takes_all:
        found = [disk for disk in found if not disk.is_system]
    return [disk.path for disk in sorted(found, key=lambda disk: (not disk.is_system, disk.path))]
