"""A volume that is a whole disk, without a partition table.

Safe against power cuts without a mark of its own: mkfs.xfs writes the superblock, with which the disk
begins, last. Until then the disk is as blank as it was, and is formatted again. ext4 and encryption have
marks (:mod:`talos.system.block.ext4`, :mod:`talos.disks.volumes.encryption`).
"""

from collections.abc import Sequence

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.blocks import Blocks
from talos.disks.volumes.filesystem import find_filesystem, make_filesystem
from talos.disks.volumes.volume import VolumePlace, VolumeProgress, WantedVolume
from talos.system.block.blkid import Partition
from talos.system.errors import UserError
from talos.system.logging import Log


async def settle_disk(
    blocks: Blocks, wanted: WantedVolume, disks: Sequence[str], log: Log, progress: VolumeProgress
) -> VolumePlace:
    """The volume on the one disk, ready to be mounted.

    UserError when several disks are meant or something else is there, OSError when the disk fails.
    """
    disk = check_single(wanted, disks)
    progress.device = disk
    progress.phase = enums.VOLUME_PHASE_LOCATED
    made = await find_filesystem(blocks, wanted, disk, log)
    if made is None:
        progress.phase = enums.VOLUME_PHASE_PROVISIONED
        progress.changed = True
        made = await make_filesystem(blocks, wanted, disk, log)
    progress.phase = enums.VOLUME_PHASE_PREPARED
    whole = Partition(number=0, start=0, size=(await blocks.probe(disk)).size)
    return VolumePlace(disk=disk, device=disk, partition=whole, content=made.content, mapped=made.mapped)


def check_single(wanted: WantedVolume, disks: Sequence[str]) -> str:
    """The one disk; UserError when several are meant."""
    if len(disks) != 1:
        raise UserError(
            f"several disks match: {', '.join(disks)}",
            where=wanted.label,
            hint="a volume that is a disk takes one: select it by its serial or its dev_path",
        )
    return disks[0]
