"""Partitions of ``machine.disks``, which ``UserVolumeConfig`` has replaced: the Nth one of a disk."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from talos.api.definitions import block_pb2, enums_pb2
from talos.config.model import Config
from talos.disks.volumes.specs import (
    DEVICE,
    MIN_SIZE,
    NO_DISKS,
    NUMBER,
    OBSTACLE,
    USER_WAVE,
    Volumes,
    set_xfs,
)
from talos.system.block.layout import LINUX_TYPE

_MAX_LABEL = 36
"""Characters of a partition's label in a GPT."""


def make_legacy_disks(
    config: Config | None, disks: Sequence[block_pb2.DiskSpec], *, has_partitions: bool
) -> Volumes:
    """The specs of these volumes by upstream's ids, such as ``/dev/sdb-1``; ``disks`` are the machine's."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    machine = config.machine if config else None
    for disk in (machine and machine.disks) or ():
        device = find_device(disk.device or "", disks)
        for number, partition in enumerate(disk.partitions or (), 1):
            spec = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_PARTITION)
            spec.provisioning.wave = USER_WAVE + len(found)
            set_xfs(spec.provisioning.filesystem_spec, None)
            part, label = spec.provisioning.partition_spec, f"{device}-{number}"
            part.label = label[-_MAX_LABEL:]
            part.type_uuid = LINUX_TYPE
            size = partition.size.bytes if partition.size else 0
            part.min_size, part.max_size = size or MIN_SIZE, size
            spec.mount.target_path = partition.mountpoint or ""
            spec.mount.file_mode = 0o755
            spec.mount.secure = True
            annotations = {DEVICE: device, NUMBER: str(number)}
            if not has_partitions:
                annotations[OBSTACLE] = NO_DISKS
            elif not PurePosixPath(spec.mount.target_path).is_absolute():
                annotations[OBSTACLE] = f'the mount point "{spec.mount.target_path}" is no absolute path'
            found[label] = (spec, annotations)
    return found


def find_device(name: str, disks: Sequence[block_pb2.DiskSpec]) -> str:
    """The disk that a name or a link to it means; the name itself while there is no such disk."""
    return next((disk.dev_path for disk in disks if name == disk.dev_path or name in disk.symlinks), name)
