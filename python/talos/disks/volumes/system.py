"""The volumes of a machine by its config: the system's, and all of them together."""

from collections.abc import Mapping, Sequence

from talos.api.definitions import block_pb2, enums_pb2
from talos.config.documents.block.volume import VolumeConfig
from talos.config.effective.machine import has_disk_quota, is_image_cache_enabled
from talos.config.model import Config
from talos.disks.volumes.dedicated import is_dedicated, make_dedicated_volumes
from talos.disks.volumes.encryption_spec import find_system_encryption
from talos.disks.volumes.existing import make_existing_volumes
from talos.disks.volumes.external import make_external_volumes
from talos.disks.volumes.folders import make_folders
from talos.disks.volumes.legacy import make_legacy_disks
from talos.disks.volumes.schedule import set_scrub, set_trim
from talos.disks.volumes.specs import Volumes, make_selector, set_access_times, set_sizes, set_xfs
from talos.disks.volumes.user import make_user_volumes
from talos.images.cache.places import DISK as CACHE_DISK
from talos.images.cache.places import VOLUME as IMAGE_CACHE
from talos.system.block.layout import EPHEMERAL, GIB, LINUX_TYPE, META, MIB, STATE, Area

STATE_TARGET = "/system/state"
EPHEMERAL_TARGET = "/var"
IMAGE_CACHE_SIZES = (500 * MIB, GIB)
"""Upstream's least and largest size of IMAGECACHE, unless the config has others."""


def make_all_volumes(
    config: Config | None, disks: Sequence[block_pb2.DiskSpec], *, has_partitions: bool
) -> Volumes:
    """The volumes of the system and of users; those without provisioning are only located."""
    wanted = dict(make_volumes(config) if has_partitions else make_directories())
    if EPHEMERAL.label in wanted:
        wanted = make_folders() | wanted
        wanted |= make_user_volumes(config, has_partitions=has_partitions)
        wanted |= make_existing_volumes(config, has_partitions=has_partitions)
        wanted |= make_external_volumes(config, is_container=not has_partitions)
        wanted |= make_legacy_disks(config, disks, has_partitions=has_partitions)
    return wanted


def find_order(volume: str, spec: block_pb2.VolumeConfigSpec) -> tuple[int, bool]:
    """The place of a volume among others: STATE, with the machine's config, is before others of its wave."""
    return spec.provisioning.wave, volume == IMAGE_CACHE or is_dedicated(spec)


def make_directories() -> Volumes:
    """The volumes of a container, whose disks are its host's."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    for area, target, mode in ((STATE, STATE_TARGET, 0o700), (EPHEMERAL, EPHEMERAL_TARGET, 0o755)):
        spec = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_DIRECTORY)
        spec.mount.target_path = target
        spec.mount.file_mode = mode
        found[area.label] = (spec, {})
    return found


def make_volumes(config: Config | None) -> Volumes:
    """The volumes of a machine with disks; before there is a complete config, nothing may be made."""
    complete = config is not None and config.is_complete
    meta = _make_partition(META, create=False)
    state = _make_partition(STATE, create=complete)
    if complete:
        state.provisioning.partition_spec.max_size = STATE.size
    state.mount.target_path = STATE_TARGET
    state.mount.file_mode = 0o700
    state.mount.secure = True
    state.mount.no_exec = True
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {
        META.label: (meta, {}),
        STATE.label: (state, {}),
    }
    if config is not None and complete:
        spec = make_ephemeral(config)
        for volume, label in ((state, STATE.label), (spec, EPHEMERAL.label)):
            _set_encryption(volume, config, label)
            document = _find(config, label)
            filesystem = document.filesystem if document else None
            set_xfs(volume.provisioning.filesystem_spec, filesystem and filesystem.xfs)
            set_trim(volume, document and document.trim, config)
            set_scrub(volume, document and document.scrub, config)
        if is_image_cache_enabled(config):
            found[IMAGE_CACHE] = (make_image_cache(config), _annotate(config, IMAGE_CACHE))
        found |= make_dedicated_volumes(config)
        # The last one: it is made as soon as it is known, and takes the room that the others leave.
        found[EPHEMERAL.label] = (spec, _annotate(config, EPHEMERAL.label))
    return found


def make_image_cache(config: Config) -> block_pb2.VolumeConfigSpec:
    """IMAGECACHE: made where a document has it, and before EPHEMERAL takes the rest of the disk."""
    spec = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_PARTITION)
    spec.mount.target_path = str(CACHE_DISK)
    spec.mount.file_mode = 0o755
    spec.mount.secure = True
    spec.mount.no_exec = True
    document = _find(config, IMAGE_CACHE)
    if document is not None:
        part = spec.provisioning.partition_spec
        part.label, part.type_uuid = IMAGE_CACHE, LINUX_TYPE
        part.min_size, part.max_size = IMAGE_CACHE_SIZES
        set_xfs(spec.provisioning.filesystem_spec, document.filesystem and document.filesystem.xfs)
        if document.provisioning is not None:
            set_sizes(part, document.provisioning)
            part.max_size = max(part.max_size, part.min_size)
        if document.mount is not None:
            set_access_times(spec.mount, disable=document.mount.disable_access_time)
        set_trim(spec, document.trim, config)
        set_scrub(spec, document.scrub, config)
        _set_encryption(spec, config, IMAGE_CACHE)
    return spec


def make_ephemeral(config: Config) -> block_pb2.VolumeConfigSpec:
    """EPHEMERAL: the rest of the disk, unless configured otherwise."""
    spec = _make_partition(EPHEMERAL, create=True)
    part = spec.provisioning.partition_spec
    part.grow = True
    spec.provisioning.wave = 1
    spec.mount.target_path = EPHEMERAL_TARGET
    spec.mount.file_mode = 0o755
    spec.mount.secure = True
    spec.mount.project_quota_support = has_disk_quota(config)
    document = _find(config, EPHEMERAL.label)
    wanted = document.provisioning if document else None
    if wanted:
        part.grow = wanted.grow is not False
        set_sizes(part, wanted)
    if document and document.mount:
        spec.mount.secure = document.mount.secure is not False
        set_access_times(spec.mount, disable=document.mount.disable_access_time)
    return spec


def _make_partition(area: Area, *, create: bool) -> block_pb2.VolumeConfigSpec:
    spec = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_PARTITION)
    if create:
        spec.provisioning.partition_spec.label = area.label
        spec.provisioning.partition_spec.type_uuid = area.type_uuid
        spec.provisioning.partition_spec.min_size = area.size
        set_xfs(spec.provisioning.filesystem_spec, None)
        spec.provisioning.filesystem_spec.label = area.label
    return spec


def _set_encryption(spec: block_pb2.VolumeConfigSpec, config: Config, label: str) -> None:
    encryption = find_system_encryption(config, label)
    if encryption is not None:
        spec.encryption.CopyFrom(encryption)


def _annotate(config: Config, name: str) -> Mapping[str, str]:
    document = _find(config, name)
    return make_selector(document.provisioning if document else None)


def _find(config: Config, name: str) -> VolumeConfig | None:
    return next((document for document in config.find_all(VolumeConfig) if document.name == name), None)
