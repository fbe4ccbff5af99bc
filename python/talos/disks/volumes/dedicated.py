"""ETCD, CRI, KUBELET and LOG on partitions of their own, where they are folders of EPHEMERAL else.

Each is mounted on the folder that it would be, and made before EPHEMERAL, which takes the rest of a disk.
"""

from collections.abc import Mapping

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.documents.block.volume import VolumeConfig
from talos.config.effective.volumes import find_dedicated
from talos.config.model import Config
from talos.disks.volumes.encryption_spec import make_encryption
from talos.disks.volumes.folders import find_folder, find_path
from talos.disks.volumes.schedule import set_scrub, set_trim
from talos.disks.volumes.specs import Volumes, make_selector, set_access_times, set_sizes, set_xfs
from talos.system.block.layout import EPHEMERAL, GIB, LINUX_TYPE

MIN_SIZE = 2 * GIB
"""Upstream's least size, unless the config has another, or a smaller ``maxSize``."""
_WITHOUT_PROGRAMS = frozenset({"ETCD", "LOG"})
"""Those that hold nothing which is to be run; images and plugins are in the others."""


def is_dedicated(spec: block_pb2.VolumeConfigSpec) -> bool:
    """Whether it is one of these: a partition that is mounted on a folder of EPHEMERAL."""
    return spec.type == enums.VOLUME_TYPE_PARTITION and spec.mount.parent_id == EPHEMERAL.label


def make_dedicated_volumes(config: Config) -> Volumes:
    """Their specs, each with the annotation of the disks that it may be on."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    for name, document in find_dedicated(config).items():
        spec = block_pb2.VolumeConfigSpec(type=enums.VOLUME_TYPE_PARTITION)
        _fill(spec, name, document)
        set_trim(spec, document.trim, config)
        set_scrub(spec, document.scrub, config)
        found[name] = (spec, make_selector(document.provisioning))
    return found


def _fill(spec: block_pb2.VolumeConfigSpec, name: str, document: VolumeConfig) -> None:
    """Size, filesystem, encryption and mount."""
    part, wanted = spec.provisioning.partition_spec, document.provisioning
    part.label, part.type_uuid, part.min_size = name, LINUX_TYPE, MIN_SIZE
    if wanted is not None:
        set_sizes(part, wanted)
        part.grow = bool(wanted.grow)
        if part.max_size and not part.negative_max_size and not wanted.min_size:
            part.min_size = min(part.min_size, part.max_size)
    set_xfs(spec.provisioning.filesystem_spec, document.filesystem and document.filesystem.xfs)
    spec.provisioning.filesystem_spec.label = name
    if document.encryption is not None:
        spec.encryption.CopyFrom(make_encryption(document.encryption))
    folder, mount = find_folder(name), document.mount
    spec.mount.target_path = find_path(folder)
    spec.mount.parent_id = EPHEMERAL.label
    spec.mount.file_mode = folder.mode
    spec.mount.uid = spec.mount.gid = folder.owner
    spec.mount.secure = mount is None or mount.secure is not False
    spec.mount.no_exec = spec.mount.secure and name in _WITHOUT_PROGRAMS
    set_access_times(spec.mount, disable=mount and mount.disable_access_time)
