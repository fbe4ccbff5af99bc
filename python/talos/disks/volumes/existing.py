"""Volumes that someone else has made, and that are mounted as they are: ``ExistingVolumeConfig``."""

from collections.abc import Collection, Mapping, Sequence

from talos.api.definitions import block_pb2, enums_pb2
from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import VOLUME
from talos.config.documents.block.existing_volume import ExistingVolumeConfig
from talos.config.model import Config
from talos.disks.volumes.blocks import Blocks
from talos.disks.volumes.schedule import set_scrub, set_trim
from talos.disks.volumes.specs import NO_DISKS, OBSTACLE, VOLUME_SELECTOR, Volumes, set_options
from talos.disks.volumes.user import EXISTING_PREFIX, make_mounted
from talos.disks.volumes.volume import VolumePlace
from talos.resource.resource import Resource
from talos.system.block.blkid import Partition
from talos.system.block.layout import DEDICABLE, SYSTEM
from talos.system.errors import UserError

_READ_ONLY = frozenset({"iso9660", "squashfs"})
"""Filesystems that can't be mounted in another way."""
_MOUNTABLE = _READ_ONLY | {"btrfs", "ext2", "ext3", "ext4", "vfat", "xfs"}
"""What the kernel has, by libblkid's names, which are the kernel's."""
_SYSTEM = frozenset({*(area.label for area in SYSTEM), *DEDICABLE})


def make_existing_volumes(config: Config | None, *, has_partitions: bool) -> Volumes:
    """The specs of these volumes; a machine that is a container has none."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    if config is None:
        return found
    for document in config.find_all(ExistingVolumeConfig):
        spec = make_mounted(enums_pb2.VOLUME_TYPE_PARTITION, document.name)
        mount = document.mount
        set_options(
            spec.mount,
            secure=mount and mount.secure,
            disable_access_time=mount and mount.disable_access_time,
            read_only=mount and mount.read_only,
        )
        set_trim(spec, document.trim, config)
        set_scrub(spec, document.scrub, config)
        selector = document.discovery.volume_selector if document.discovery else None
        annotations = {VOLUME_SELECTOR: str((selector and selector.match) or "")}
        if not has_partitions:
            annotations[OBSTACLE] = NO_DISKS
        found[f"{EXISTING_PREFIX}{document.name}"] = (spec, annotations)
    return found


def find_existing(
    volumes: Sequence[Resource[block_pb2.DiscoveredVolumeSpec]],
    disks: Mapping[str, block_pb2.DiskSpec],
    selector: str,
    where: str,
    *,
    system: Collection[str],
    taken: Collection[str],
) -> block_pb2.DiscoveredVolumeSpec | None:
    """The first volume that is selected, in the order of their names; UserError for a wrong expression.

    Never a partition of the system itself, on one of the ``system``'s disks, nor a device that is ``taken``
    by another volume: STATE has the secrets of the machine, and a selector such as ``volume.name == "xfs"``
    means it, too.
    """
    expression = compile_expression(selector, VOLUME, where=where)
    for volume in sorted(volumes, key=lambda volume: volume.id):
        spec = volume.spec
        is_own = spec.parent_dev_path in system and spec.partition_label in _SYSTEM
        disk = disks.get(spec.parent or volume.id, block_pb2.DiskSpec())
        if not is_own and spec.dev_path not in taken and expression.is_true({"volume": spec, "disk": disk}):
            return spec
    return None


async def open_existing(blocks: Blocks, volume: block_pb2.DiscoveredVolumeSpec, where: str) -> VolumePlace:
    """The volume, to be mounted; UserError when it has no filesystem that can be. Nothing is written."""
    device = volume.dev_path
    content = await blocks.probe(device)
    if content.kind != "filesystem":
        hint = f"it holds {content.name}" if content.name else "it is blank, or its content is unknown"
        raise UserError(f"filesystem not found on {device}", where=where, hint=hint)
    if content.name not in _MOUNTABLE:
        hint = f"one of: {', '.join(sorted(_MOUNTABLE))}"
        raise UserError(f"{device} holds {content.name}, which is not supported", where=where, hint=hint)
    partition = Partition(
        number=volume.partition_index,
        start=volume.offset,
        size=volume.size,
        uuid=volume.partition_uuid,
        label=volume.partition_label,
    )
    return VolumePlace(
        disk=volume.parent_dev_path or device, device=device, partition=partition, content=content
    )


def is_read_only(filesystem: str) -> bool:
    """Whether a filesystem can't be written to, whatever the config."""
    return filesystem in _READ_ONLY
