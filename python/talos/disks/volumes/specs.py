"""What the specs of the system's volumes and of users' have in common."""

from collections.abc import Mapping

from talos.api.definitions import block_pb2, enums_pb2
from talos.config.documents.block.filesystem import XFSSpec
from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.values import Size
from talos.system.block.layout import GIB, MIB

SELECTOR = "talos.dev/disk-selector"
"""Annotation: the expression that selects the disks for a volume."""
VOLUME_SELECTOR = "talos.dev/volume-selector"
"""Annotation: the expression that selects a volume which exists."""
OBSTACLE = "talos.dev/obstacle"
"""Annotation: why the configured volume is not possible."""
DEVICE, NUMBER = "talos.dev/device", "talos.dev/partition-number"
"""Annotations: the disk and the partition that a volume is, whatever its label."""
NO_DISKS = "a container has no disks of its own"
MIN_SIZE = 100 * MIB
"""Bytes of a user's partition whose config gives no size."""
MIN_GROUP = 64 * GIB
"""Bytes of the smallest allocation group of an XFS that is made for several processors."""
USER_WAVE = 2
"""From which on volumes are users', which are made after EPHEMERAL."""
NO_ACCESS_TIMES, READ_ONLY = "noatime", "ro"
_PERCENT = "%"

type Volumes = Mapping[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]]
"""Specs and annotations by id."""


def set_sizes(part: block_pb2.PartitionSpec, wanted: ProvisioningSpec) -> None:
    """Take the sizes of a document; what it leaves out stays."""
    if wanted.min_size:
        part.min_size = wanted.min_size.bytes
    size = wanted.max_size
    if not size:
        return
    part.negative_max_size = size.startswith("-")
    amount = size.removeprefix("-")
    if amount.endswith(_PERCENT):
        part.relative_max_size = int(float(amount.removesuffix(_PERCENT)))
    else:
        part.max_size = Size(amount).bytes


def make_selector(wanted: ProvisioningSpec | None) -> Mapping[str, str]:
    """The annotation of a volume whose document selects disks."""
    selector = wanted.disk_selector if wanted else None
    return {SELECTOR: str(selector.match)} if selector and selector.match else {}


def set_xfs(spec: block_pb2.FilesystemSpec, settings: XFSSpec | None) -> None:
    """XFS, with its settings."""
    spec.type = enums_pb2.FILESYSTEM_TYPE_XFS
    minimum = settings.min_allocation_group_size if settings else None
    spec.min_allocation_group_size = MIN_GROUP if minimum is None else minimum.bytes


def set_options(
    mount: block_pb2.MountSpec,
    *,
    secure: bool | None,
    disable_access_time: bool | None,
    read_only: bool | None = None,
) -> None:
    """The mount options that the config has for a volume of the user's; without programs unless it is off."""
    mount.secure = mount.no_exec = secure is not False
    set_access_times(mount, disable=disable_access_time)
    if read_only:
        mount.parameters.add(name=READ_ONLY, type=enums_pb2.FS_PARAMETER_TYPE_BOOLEAN_VALUE)


def set_access_times(mount: block_pb2.MountSpec, *, disable: bool | None) -> None:
    """Whether reading a file is recorded."""
    if disable:
        mount.parameters.add(name=NO_ACCESS_TIMES, type=enums_pb2.FS_PARAMETER_TYPE_BOOLEAN_VALUE)


def has_parameter(mount: block_pb2.MountSpec, name: str) -> bool:
    """Whether a mount has an option without a value."""
    return any(parameter.name == name for parameter in mount.parameters)
