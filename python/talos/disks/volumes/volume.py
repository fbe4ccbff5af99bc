"""What a volume is to be, where it is, and how far it got."""

from collections.abc import Callable
from dataclasses import dataclass

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.blocks import EXT4, XFS
from talos.disks.volumes.encryption import VolumeEncryption
from talos.system.block.blkid import Content, Partition
from talos.system.block.layout import LINUX_TYPE

SWAP, RAW, GPT = "swap", "", "gpt"
type Limit = Callable[[int], int]
"""How much of so many free bytes a volume may take at most."""


def take_all(free: int) -> int:
    """The limit of a volume that has none."""
    return free


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedVolume:
    """The spec of a volume. Sizes in bytes; one that may not be created is only located.

    ``label`` is the partition's, which is found by its ``number`` if it has one; the filesystem's may be
    empty. ``filesystem`` is what it is to hold, ``min_group`` the size of its smallest allocation group.
    """

    label: str
    number: int = 0
    type_uuid: str = LINUX_TYPE
    filesystem: str = XFS
    filesystem_label: str = ""
    min_group: int = 0
    minimum: int = 0
    limit: Limit = take_all
    grow: bool = False
    may_create: bool = False
    encryption: VolumeEncryption | None = None

    @property
    def has_filesystem(self) -> bool:
        """Whether it is formatted, and mounted."""
        return self.filesystem in {XFS, EXT4}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlace:
    """Where a volume is. ``mapped`` is what an encrypted one is mounted from, ``content`` what that holds."""

    disk: str
    device: str
    partition: Partition
    content: Content
    mapped: str = ""

    @property
    def source(self) -> str:
        """The device with the filesystem."""
        return self.mapped or self.device


@dataclass(slots=True)
class VolumeProgress:
    """How far it got, for the status of one that failed, and whether a disk was changed."""

    phase: enums.BlockVolumePhase = enums.VOLUME_PHASE_WAITING
    device: str = ""
    changed: bool = False
