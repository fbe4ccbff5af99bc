"""The state of a volume, and its resources."""

from dataclasses import dataclass

from talos.api.definitions import block_pb2, runtime_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.settle import FILESYSTEM, VolumePlace, WantedVolume, take_all
from talos.system.proc.mounts import Mount
from talos.system.sizes import format_pretty_size


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """A volume now. ``before`` is the phase in which one failed, ``target`` where it is mounted."""

    phase: enums.BlockVolumePhase
    before: enums.BlockVolumePhase = enums.VOLUME_PHASE_WAITING
    disk: str = ""
    location: str = ""
    place: VolumePlace | None = None
    target: str = ""
    error: str = ""


def make_wanted_volume(label: str, spec: block_pb2.VolumeConfigSpec) -> WantedVolume:
    """The spec of a volume's partition from its config."""
    filesystem_label = spec.provisioning.filesystem_spec.label
    if not spec.provisioning.HasField("partition_spec"):
        return WantedVolume(label=label, filesystem_label=filesystem_label)
    part = spec.provisioning.partition_spec

    def limit(free: int) -> int:
        amount = free * part.relative_max_size // 100 if part.relative_max_size else part.max_size
        if part.negative_max_size:
            return max(free - amount, 0)
        return amount or free

    has_limit = part.max_size or part.relative_max_size
    return WantedVolume(
        label=label,
        filesystem_label=filesystem_label,
        minimum=part.min_size,
        limit=limit if has_limit else take_all,
        grow=part.grow,
        may_create=True,
    )


def fill_status(
    spec: block_pb2.VolumeStatusSpec, current: VolumeState, config: block_pb2.VolumeConfigSpec
) -> None:
    """Fill in a VolumeStatus."""
    fresh = block_pb2.VolumeStatusSpec(
        phase=current.phase,
        pre_fail_phase=current.before,
        location=current.location,
        parent_location=current.disk,
        mount_location=current.location,
        error_message=current.error,
        type=config.type,
    )
    if config.HasField("mount"):
        fresh.mount_spec.CopyFrom(config.mount)
    if config.HasField("symlink"):
        fresh.symlink_spec.CopyFrom(config.symlink)
    place = current.place
    if place is not None:
        fresh.uuid = place.content.uuid
        fresh.partition_uuid = place.partition.uuid
        fresh.partition_index = place.partition.number
        fresh.size = place.partition.size
        fresh.pretty_size = format_pretty_size(place.partition.size)
        if place.content.name == FILESYSTEM:
            fresh.filesystem = enums.FILESYSTEM_TYPE_XFS
    spec.CopyFrom(fresh)


def fill_mount(spec: block_pb2.MountStatusSpec, volume: str, mount: Mount, quota: bool) -> None:
    """The block layer's MountStatus."""
    spec.spec.volume_id = volume
    spec.source = mount.source
    spec.target = mount.target
    known = {"xfs": enums.FILESYSTEM_TYPE_XFS, "ext4": enums.FILESYSTEM_TYPE_EXT4}
    spec.filesystem = known.get(mount.type, enums.FILESYSTEM_TYPE_NONE)
    spec.read_only = "ro" in mount.options
    spec.project_quota_support = quota


def fill_runtime_mount(spec: runtime_pb2.MountStatusSpec, mount: Mount) -> None:
    """The MountStatus of ``talosctl get mounts``."""
    spec.source = mount.source
    spec.target = mount.target
    spec.filesystem_type = mount.type
    spec.options[:] = mount.options
