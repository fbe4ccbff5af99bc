"""The partition of a volume: located or created, formatted or repaired, grown.

Safe against power cuts. A partition whose filesystem is not complete is marked: GPT attribute 50 is set
in the write that creates the partition, and cleared after mkfs has finished and the disk is synced. A
marked partition was never mounted, so it is formatted again, and encrypted again where it is to be. Without
the mark only a blank partition is formatted, one that starts with zeros and in which libblkid finds nothing
(it is marked first). Any other content than the wanted filesystem is never overwritten, and that is repaired
when its superblock is broken. What is encrypted stays encrypted, what is not stays as it is. The place of a
new partition is erased first, so that no previous content reappears.

A raw volume belongs to whom it is for: what its partition holds is not looked at. Swap is made anew at each
start, and only where there is swap, or nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from talos.api.definitions import enums_pb2 as enums
from talos.disks.disk import make_wipe_hint
from talos.disks.volumes.blocks import EXT4, XFS, Blocks, NewFilesystem, Tables
from talos.disks.volumes.encryption import VolumeEncryption
from talos.system.block import ext4
from talos.system.block.blkid import Content, Partition
from talos.system.block.layout import LINUX_TYPE
from talos.system.block.luks_header import MARK
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

SWAP, RAW, GPT = "swap", "", "gpt"
LUKS = "crypto_LUKS"
"""libblkid's name for an encrypted device."""
XFS_MAGIC = b"XFSB"
"""What a superblock begins with, also one that libblkid refuses because its checksum is wrong."""

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
        if content.kind or not await _is_blank(blocks, wanted, disk, log):
            raise _refuse(
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


@dataclass(frozen=True, slots=True)
class MadeFilesystem:
    """A filesystem, and the mapped device that it is on when it is encrypted."""

    content: Content
    mapped: str = ""


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


async def make_filesystem(blocks: Blocks, wanted: WantedVolume, device: str, log: Log) -> MadeFilesystem:
    """Format a device, inside of its encryption where it has one; without a filesystem only that."""
    encryption = wanted.encryption
    if encryption and not encryption.configured:
        await encryption.forget()
        encryption = None
    mapped = await encryption.create(device) if encryption else ""
    target = mapped or device
    if wanted.has_filesystem:
        log.info(f"volume {wanted.label}: making its filesystem", device=target)
        new = NewFilesystem(
            type=wanted.filesystem,
            label=wanted.filesystem_label,
            size=(await blocks.probe(target)).size,
            min_group=wanted.min_group,
        )
        await blocks.format(target, new)
    if encryption:
        await encryption.publish(device)
    return MadeFilesystem(await blocks.probe(target), mapped)


async def find_filesystem(
    blocks: Blocks, wanted: WantedVolume, device: str, log: Log
) -> MadeFilesystem | None:
    """The wanted content of a partition or disk; None when that is blank. UserError for anything else."""
    encryption = wanted.encryption
    content = await blocks.probe(device)
    if wanted.filesystem == RAW and encryption is None:
        return MadeFilesystem(content)
    if content.name == LUKS:
        if encryption is None:
            raise UserError(
                f"{device} is encrypted, and the config has no encryption for it",
                where=wanted.label,
                hint="add its encryption to the config",
            )
        mapped = await encryption.open(device)
        inside: Content | None = await blocks.probe(mapped)
        if wanted.has_filesystem:  # else what is there is its own: no one else has the keys
            inside = await _find(blocks, wanted, mapped, inside, log)
        if inside is None:
            raise _refuse(wanted, device, "is encrypted, and empty inside: it is not formatted")
        await encryption.keep_slots(device)
        return MadeFilesystem(inside, mapped)
    if encryption is None:
        found = await _find(blocks, wanted, device, content, log)
        return None if found is None else MadeFilesystem(found)
    if content.kind:
        reason = f"holds {content.name}, which is not encrypted: it is neither formatted nor encrypted"
        raise _refuse(wanted, device, reason)
    head = await blocks.read_head(device)
    if not head.startswith(MARK) and any(head):
        raise _refuse(wanted, device, "holds unrecognised data: it is not encrypted")
    return None


async def _find(
    blocks: Blocks, wanted: WantedVolume, device: str, content: Content, log: Log
) -> Content | None:
    if (await blocks.read_head(device)).startswith(ext4.MARK):
        return None
    if content.name == wanted.filesystem:
        return content
    if content.kind:
        name = f"{content.name} ({content.label})" if content.label else content.name
        raise _refuse(wanted, device, f"holds {name}, no {wanted.filesystem}: it is not formatted over")
    return None if await _is_blank(blocks, wanted, device, log) else await blocks.probe(device)


async def _is_blank(blocks: Tables, wanted: WantedVolume, device: str, log: Log) -> bool:
    """Whether nothing can be lost here; False when its filesystem is there again. UserError for others."""
    head = await blocks.read_head(device)
    found = XFS if head.startswith(XFS_MAGIC) else EXT4 if ext4.has_superblock(head) else ""
    if found and found == wanted.filesystem:
        log.warning(f"volume {wanted.label}: its superblock is broken, repairing it", device=device)
        if not await blocks.repair(device, found, force=False):
            await blocks.repair(device, found, force=True)
        if (await blocks.probe(device)).name == found:
            return False
    if any(head):
        raise _refuse(wanted, device, "holds unrecognised data: it is not formatted")
    return True


def _refuse(wanted: WantedVolume, device: str, reason: str) -> UserError:
    return UserError(f"{device} {reason}", where=wanted.label, hint=make_wipe_hint(device))


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
