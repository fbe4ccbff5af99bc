"""The state of a volume, and its resources."""

from dataclasses import dataclass

from talos.api.definitions import block_pb2, runtime_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.blocks import EXT4, XFS
from talos.disks.volumes.encryption import VolumeEncryption
from talos.disks.volumes.encryption_spec import list_kinds
from talos.disks.volumes.volume import RAW, SWAP, VolumePlace, WantedVolume, take_all
from talos.system.proc.mounts import Mount
from talos.system.sizes import format_pretty_size
from talos.system.tpm.sealing import has_signed_policy
from talos.system.tpm.uki import PCR

UNENCRYPTED = (
    "the volume is not encrypted (reset it to have it made anew: talosctl reset --system-labels-to-wipe)"
)
STILL_ENCRYPTED = "the volume is encrypted, and the config has no encryption for it any more (put it back)"

_FORMATS = {
    enums.FILESYSTEM_TYPE_XFS: XFS,
    enums.FILESYSTEM_TYPE_EXT4: EXT4,
    enums.FILESYSTEM_TYPE_SWAP: SWAP,
    enums.FILESYSTEM_TYPE_NONE: RAW,
}


FILESYSTEMS = {
    "btrfs": enums.FILESYSTEM_TYPE_BTRFS,
    "ext4": enums.FILESYSTEM_TYPE_EXT4,
    "iso9660": enums.FILESYSTEM_TYPE_ISO9660,
    "swap": enums.FILESYSTEM_TYPE_SWAP,
    "vfat": enums.FILESYSTEM_TYPE_VFAT,
    "virtiofs": enums.FILESYSTEM_TYPE_VIRTIOFS,
    "xfs": enums.FILESYSTEM_TYPE_XFS,
}
"""Kinds of filesystems by the kernel's names; others have none in the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """A volume now. ``before`` is the phase in which one failed, ``target`` where it is mounted.

    One that is ``used`` stays as it is until the end: mounted, swapped to, or a device for others.
    """

    phase: enums.BlockVolumePhase
    before: enums.BlockVolumePhase = enums.VOLUME_PHASE_WAITING
    disk: str = ""
    location: str = ""
    place: VolumePlace | None = None
    target: str = ""
    used: bool = False
    filesystem: str = ""
    error: str = ""
    encryption: VolumeEncryption | None = None


def make_wanted_volume(
    label: str,
    spec: block_pb2.VolumeConfigSpec,
    encryption: VolumeEncryption | None = None,
    *,
    number: int = 0,
) -> WantedVolume:
    """The spec of a volume's partition from its config."""
    filesystem = spec.provisioning.filesystem_spec
    if not spec.provisioning.HasField("partition_spec"):
        is_disk = spec.type == enums.VOLUME_TYPE_DISK  # others are only located
        return WantedVolume(
            label=label,
            filesystem=_FORMATS[filesystem.type] if is_disk else XFS,
            filesystem_label=filesystem.label,
            min_group=filesystem.min_allocation_group_size,
            grow=is_disk,
            encryption=encryption,
        )
    part = spec.provisioning.partition_spec

    def limit(free: int) -> int:
        amount = free * part.relative_max_size // 100 if part.relative_max_size else part.max_size
        if part.negative_max_size:
            return max(free - amount, 0)
        return amount or free

    has_limit = part.max_size or part.relative_max_size
    return WantedVolume(
        label=part.label if number else label,
        number=number,
        type_uuid=part.type_uuid,
        filesystem=_FORMATS[filesystem.type],
        filesystem_label=filesystem.label,
        min_group=filesystem.min_allocation_group_size,
        minimum=part.min_size,
        limit=limit if has_limit else take_all,
        grow=part.grow,
        may_create=True,
        encryption=encryption,
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
    if config.trim_enabled:
        fresh.trim_enabled = True
        fresh.trim_interval.CopyFrom(config.trim_interval)
    if config.scrub_enabled:
        fresh.scrub_enabled = True
        fresh.scrub_interval.CopyFrom(config.scrub_interval)
    _fill_encryption(fresh, current, config)
    place = current.place
    if place is not None:
        fresh.mount_location = place.source
        fresh.uuid = place.content.uuid
        fresh.partition_uuid = place.partition.uuid
        fresh.partition_index = place.partition.number
        if place.partition.size:
            fresh.size = place.partition.size
            fresh.pretty_size = format_pretty_size(place.partition.size)
        filesystem = current.filesystem or place.content.name
        fresh.filesystem = FILESYSTEMS.get(filesystem, enums.FILESYSTEM_TYPE_NONE)
    spec.CopyFrom(fresh)


def _fill_encryption(
    spec: block_pb2.VolumeStatusSpec, current: VolumeState, config: block_pb2.VolumeConfigSpec
) -> None:
    encryption, is_wanted = current.encryption, config.HasField("encryption")
    if encryption is None:
        if is_wanted and current.target:
            spec.encryption_failed_syncs.append(UNENCRYPTED)
        return
    spec.encryption_provider = enums.ENCRYPTION_PROVIDER_LUKS2
    spec.configured_encryption_keys[:] = list_kinds(encryption.spec.keys)
    spec.encryption_failed_syncs[:] = encryption.failed
    if encryption.configured and not is_wanted:
        spec.encryption_failed_syncs.append(STILL_ENCRYPTED)
    spec.encryption_allow_discards = encryption.allows_discards
    if encryption.opener is not None:
        spec.encryption_slot = encryption.opener.spec.slot
        spec.encryption_locked_to_state = encryption.opener.spec.lock_to_state
        if encryption.opener.is_of_tpm:
            options = spec.tpm_encryption_options
            options.pc_rs[:] = encryption.opener.spec.tpmpc_rs
            options.pub_key_pc_rs[:] = [PCR] if has_signed_policy(encryption.opener.sealed) else []


def fill_mount(spec: block_pb2.MountStatusSpec, volume: str, mount: Mount, quota: bool) -> None:
    """The block layer's MountStatus."""
    spec.spec.volume_id = volume
    spec.source = mount.source
    spec.target = mount.target
    spec.filesystem = FILESYSTEMS.get(mount.type, enums.FILESYSTEM_TYPE_NONE)
    spec.read_only = "ro" in mount.options
    spec.project_quota_support = quota


def fill_runtime_mount(spec: runtime_pb2.MountStatusSpec, mount: Mount, encrypted: bool) -> None:
    """The MountStatus of ``talosctl get mounts``."""
    spec.encrypted = encrypted
    spec.encryption_providers[:] = ["luks2"] if encrypted else []
    spec.source = mount.source
    spec.target = mount.target
    spec.filesystem_type = mount.type
    spec.options[:] = mount.options
