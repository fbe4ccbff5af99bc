"""Users' volumes: folders of EPHEMERAL, partitions, whole disks, mounted at /var/mnt/NAME; raw ones; swap."""

from collections.abc import Mapping

from talos.api.definitions import block_pb2, enums_pb2
from talos.config.documents.block.existing_volume import ExistingVolumeConfig
from talos.config.documents.block.external_volume import ExternalVolumeConfig
from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.documents.block.raw_volume import RawVolumeConfig
from talos.config.documents.block.swap_volume import SwapVolumeConfig
from talos.config.documents.block.user_volume import UserVolumeConfig
from talos.config.model import Config
from talos.disks.volumes.blocks import EXT4, XFS
from talos.disks.volumes.encryption_spec import make_encryption
from talos.disks.volumes.schedule import set_scrub, set_trim
from talos.disks.volumes.specs import (
    MIN_SIZE,
    NO_DISKS,
    OBSTACLE,
    USER_WAVE,
    Volumes,
    make_selector,
    set_options,
    set_sizes,
    set_xfs,
)
from talos.system.block.layout import LINUX_TYPE, SWAP_TYPE

USER_VOLUMES = "/var/mnt"
"""The folder that they are in, and its id as a volume."""
USER_PREFIX = "u-"
"""What the id of a mounted one begins with, and the label of its partition."""
RAW_PREFIX, SWAP_PREFIX, EXISTING_PREFIX, EXTERNAL_PREFIX = "r-", "s-", "e-", "x-"
_DOCUMENTS = {
    USER_PREFIX: f"{UserVolumeConfig.kind} ",
    RAW_PREFIX: f"{RawVolumeConfig.kind} ",
    SWAP_PREFIX: f"{SwapVolumeConfig.kind} ",
    EXISTING_PREFIX: f"{ExistingVolumeConfig.kind} ",
    EXTERNAL_PREFIX: f"{ExternalVolumeConfig.kind} ",
    "/dev/": "machine.disks /dev/",
}
"""Where users' volumes are configured, by what their ids begin with."""
_TYPES = {
    "directory": enums_pb2.VOLUME_TYPE_DIRECTORY,
    "disk": enums_pb2.VOLUME_TYPE_DISK,
    "partition": enums_pb2.VOLUME_TYPE_PARTITION,
}


def is_user_volume(spec: block_pb2.VolumeConfigSpec) -> bool:
    """Whether a volume comes and goes with its place in the config."""
    return spec.provisioning.wave >= USER_WAVE


def is_mounted(spec: block_pb2.VolumeConfigSpec) -> bool:
    """Whether it is one of these, and mounted for workloads."""
    return is_user_volume(spec) and bool(spec.mount.target_path)


def find_place(volume: str) -> str:
    """Where the config has a user's volume, such as ``UserVolumeConfig db``; empty for one of the system."""
    places = (
        place + volume.removeprefix(prefix)
        for prefix, place in _DOCUMENTS.items()
        if volume.startswith(prefix)
    )
    return next(places, "")


def make_user_volumes(config: Config | None, *, has_partitions: bool) -> Volumes:
    """The specs of users' volumes; a machine that is a container has only folders."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    if config is None:
        return found
    for document in (*config.find_all(RawVolumeConfig), *config.find_all(SwapVolumeConfig)):
        label, spec = _make_unmounted(document)
        found[label] = (spec, _annotate(document, has_partitions=has_partitions))
    for document in config.find_all(UserVolumeConfig):
        spec = make_mounted(_TYPES[document.volume_type or "partition"], document.name)
        annotations: Mapping[str, str] = {}
        if document.volume_type != "directory":
            _fill(spec, document)
            set_trim(spec, document.trim, config)
            set_scrub(spec, document.scrub, config)
            annotations = _annotate(document, has_partitions=has_partitions)
        found[f"{USER_PREFIX}{document.name}"] = (spec, annotations)
    return found


def make_mounted(type: enums_pb2.BlockVolumeType, name: str) -> block_pb2.VolumeConfigSpec:
    """A volume that is mounted in the folder of users' volumes, by its name."""
    spec = block_pb2.VolumeConfigSpec(type=type)
    spec.provisioning.wave = USER_WAVE
    spec.mount.target_path = name
    spec.mount.parent_id = USER_VOLUMES
    spec.mount.file_mode = 0o755
    return spec


def _make_unmounted(document: RawVolumeConfig | SwapVolumeConfig) -> tuple[str, block_pb2.VolumeConfigSpec]:
    """A partition without a filesystem."""
    is_swap = isinstance(document, SwapVolumeConfig)
    spec = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_PARTITION)
    spec.provisioning.wave = USER_WAVE
    spec.provisioning.filesystem_spec.type = (
        enums_pb2.FILESYSTEM_TYPE_SWAP if is_swap else enums_pb2.FILESYSTEM_TYPE_NONE
    )
    label = f"{SWAP_PREFIX if is_swap else RAW_PREFIX}{document.name}"
    _fill_partition(
        spec.provisioning.partition_spec, label, SWAP_TYPE if is_swap else LINUX_TYPE, document.provisioning
    )
    if document.encryption is not None:
        spec.encryption.CopyFrom(make_encryption(document.encryption))
    return label, spec


def _fill_partition(
    part: block_pb2.PartitionSpec, label: str, type_uuid: str, wanted: ProvisioningSpec | None
) -> None:
    part.label = label
    part.type_uuid = type_uuid
    part.min_size = MIN_SIZE
    if wanted:
        part.grow = bool(wanted.grow)
        set_sizes(part, wanted)


def _fill(spec: block_pb2.VolumeConfigSpec, document: UserVolumeConfig) -> None:
    """Size, filesystem, encryption and mount options of what is not a folder."""
    filesystem = document.filesystem
    if filesystem and filesystem.type == EXT4:
        spec.provisioning.filesystem_spec.type = enums_pb2.FILESYSTEM_TYPE_EXT4
    else:
        set_xfs(spec.provisioning.filesystem_spec, filesystem and filesystem.xfs)
    if spec.type == enums_pb2.VOLUME_TYPE_PARTITION:
        label = f"{USER_PREFIX}{document.name}"
        _fill_partition(spec.provisioning.partition_spec, label, LINUX_TYPE, document.provisioning)
    if document.encryption is not None:
        spec.encryption.CopyFrom(make_encryption(document.encryption))
    mount = document.mount
    set_options(
        spec.mount,
        secure=mount and mount.secure,
        disable_access_time=mount and mount.disable_access_time,
    )
    spec.mount.project_quota_support = bool(filesystem and filesystem.project_quota_support)


def _annotate(
    document: UserVolumeConfig | RawVolumeConfig | SwapVolumeConfig, *, has_partitions: bool
) -> Mapping[str, str]:
    found = dict(make_selector(document.provisioning))
    filesystem: str | None = None
    if isinstance(document, UserVolumeConfig) and document.filesystem:
        filesystem = document.filesystem.type
    if not has_partitions:
        is_mounted_one = isinstance(document, UserVolumeConfig)
        found[OBSTACLE] = NO_DISKS + (" (use volumeType: directory)" if is_mounted_one else "")
    elif filesystem not in {None, XFS, EXT4}:
        found[OBSTACLE] = f"the filesystem {filesystem} is not supported by this version (use xfs or ext4)"
    return found
