"""The partition of a volume: located or created, formatted or repaired, grown.

Safe against power cuts. A partition whose filesystem is not complete is marked: GPT attribute 50 is set
in the write that creates the partition, and cleared after mkfs has finished and the disk is synced. A
marked partition was never mounted, so it is formatted again, and encrypted again where it is to be. Without
the mark only a blank partition is formatted, one that starts with zeros and in which libblkid finds nothing
(it is marked first). Any other content than the wanted filesystem is never overwritten; the wanted filesystem
is repaired when its superblock is broken. An existing partition is neither encrypted nor decrypted. The place
of a new partition is erased first, so that no previous content reappears.

The content of a raw volume is its user's, and is not read. Swap is made anew at each start, and only on a
partition that holds swap or nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.blocks import Blocks, Tables
from talos.disks.volumes.filesystem import (
    MadeFilesystem,
    find_filesystem,
    is_blank,
    make_filesystem,
    refuse_content,
)
from talos.disks.volumes.volume import GPT, VolumePlace, VolumeProgress, WantedVolume
from talos.system.block.blkid import Partition
from talos.system.block.partitions import (
    ALIGNMENT,
    UNFINISHED,
    Gap,
    NewPartition,
    Table,
    find_gaps,
    find_growth,
    find_next_number,
    is_unfinished,
)
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.sizes import format_size


async def settle(
    blocks: Blocks, wanted: WantedVolume, disks: Sequence[str], log: Log, progress: VolumeProgress
) -> VolumePlace | None:
    """The volume, ready to be mounted; None when it isn't there, or is empty, and may not be created.

    UserError when it can't be provided, OSError when a disk fails.
    """
    found = await settle_partition(blocks, wanted, disks, log, progress)
    if found is None:
        return None
    disk, partition = found
    made = await _make_whole(blocks, wanted, disk, partition, log, progress)
    if made is None:
        return None
    partition = replace(partition, flags=partition.flags & ~(1 << UNFINISHED))
    progress.phase = enums.VOLUME_PHASE_PREPARED
    device = blocks.name_partition(disk, partition.number)
    return VolumePlace(
        disk=disk, device=device, partition=partition, content=made.content, mapped=made.mapped
    )


async def settle_partition(
    blocks: Tables, wanted: WantedVolume, disks: Sequence[str], log: Log, progress: VolumeProgress
) -> tuple[str, Partition] | None:
    """The volume's disk and its partition, made and grown; None when it isn't there and may not be made.

    UserError when there is no room, OSError when a disk fails.
    """
    found = await find(blocks, wanted, disks)
    if found is None:
        if not wanted.may_create:
            return None
        found = await _create(blocks, wanted, disks, log)
    disk, partition = found
    progress.device = blocks.name_partition(disk, partition.number)
    progress.phase = enums.VOLUME_PHASE_LOCATED
    if wanted.grow and wanted.may_create and not is_unfinished(partition):
        partition = await _grow(blocks, wanted, disk, partition, log, progress)
    progress.phase = enums.VOLUME_PHASE_PROVISIONED
    return disk, partition


async def find(blocks: Tables, wanted: WantedVolume, disks: Sequence[str]) -> tuple[str, Partition] | None:
    """The partition with the volume's number or label, and its disk; UserError when there are several."""
    found = [
        (disk, row)
        for disk in disks
        for row in (await blocks.probe(disk)).partitions
        if (row.number == wanted.number if wanted.number else row.label == wanted.label)
    ]
    if len(found) > 1:
        names = ", ".join(blocks.name_partition(disk, row.number) for disk, row in found)
        raise UserError(
            f"several partitions have this label: {names}",
            where=wanted.label,
            hint="wipe the one that is not meant: talosctl wipe disk --drop-partition",
        )
    return found[0] if found else None


async def _create(
    blocks: Tables, wanted: WantedVolume, disks: Sequence[str], log: Log
) -> tuple[str, Partition]:
    largest = 0
    refusals: list[UserError] = []
    for disk in disks:
        try:
            table, size = await _provide_table(blocks, wanted, disk, log)
        except UserError as error:
            refusals.append(error)
            continue
        gaps = find_gaps(table, size)
        gap = next((gap for gap in gaps if gap.size >= wanted.minimum), None)
        if gap is None:
            largest = max(largest, *(gap.size for gap in gaps), 0)
            continue
        return disk, await _append(blocks, wanted, disk, table, gap, log)
    if len(refusals) == len(disks):
        raise refusals[0]
    raise UserError(
        f"{format_size(wanted.minimum)} are needed, the largest free part of {', '.join(disks)} has "
        f"{format_size(largest)}",
        where=wanted.label,
        hint="use a larger disk, or free a part of this one: talosctl wipe disk --drop-partition",
    )


async def _provide_table(blocks: Tables, wanted: WantedVolume, disk: str, log: Log) -> tuple[Table, int]:
    """The disk's GPT, made where the disk is blank, and the disk's size in bytes."""
    content = await blocks.probe(disk)
    if content.name != GPT:
        if content.kind or not await is_blank(blocks, wanted, disk, log):
            raise refuse_content(
                wanted, disk, f"holds {content.name or wanted.filesystem}, no GPT: it is not written over"
            )
        log.info(f"volume {wanted.label}: making a partition table", disk=disk)
        await blocks.make_table(disk)
    return await blocks.read_table(disk), content.size


async def _append(
    blocks: Tables, wanted: WantedVolume, disk: str, table: Table, gap: Gap, log: Log
) -> Partition:
    size = max(wanted.minimum, min(gap.size, wanted.limit(gap.size)))
    size = min(-(-size // ALIGNMENT) * ALIGNMENT, gap.size)
    number = find_next_number(table)
    if wanted.number not in (0, number):
        raise UserError(f"the next partition of {disk} would be number {number}", where=wanted.label)
    log.info(f"volume {wanted.label}: making a partition of {format_size(size)}", disk=disk)
    await blocks.erase(disk, gap.start, size)
    part = NewPartition(
        label=wanted.label, start=gap.start, size=size, type_uuid=wanted.type_uuid, unfinished=True
    )
    return await blocks.append(disk, table, part)


async def _make_whole(
    blocks: Blocks, wanted: WantedVolume, disk: str, partition: Partition, log: Log, progress: VolumeProgress
) -> MadeFilesystem | None:
    device = blocks.name_partition(disk, partition.number)
    if not is_unfinished(partition):
        found = await find_filesystem(blocks, wanted, device, log)
        if found is not None or not wanted.may_create:
            return found
        await blocks.mark(disk, partition.number, finished=False)
    progress.changed = True
    made = await make_filesystem(blocks, wanted, device, log)
    await blocks.mark(disk, partition.number, finished=True)
    return made


async def _grow(
    blocks: Tables, wanted: WantedVolume, disk: str, partition: Partition, log: Log, progress: VolumeProgress
) -> Partition:
    """What can't be grown is used as it is."""
    content = await blocks.probe(disk)
    table = Table(
        uuid=content.uuid,
        sector_size=content.sector_size,
        first=ALIGNMENT,
        end=content.size - ALIGNMENT,
        partitions=content.partitions,
    )
    more = find_growth(table, partition.number)
    whole = partition.size + more
    size = min(whole, wanted.limit(whole)) // ALIGNMENT * ALIGNMENT
    if size <= partition.size:
        return partition
    log.info(f"volume {wanted.label}: growing to {format_size(size)}", disk=disk)
    try:
        await blocks.grow(disk, partition.number, size)
    except (UserError, OSError) as error:
        log.warning(f"volume {wanted.label}: it stays as large as it is", reason=str(error))
        return partition
    progress.changed = True
    return replace(partition, size=size)
