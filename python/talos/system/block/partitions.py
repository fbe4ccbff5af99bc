"""Partition tables and filesystems, by the tools of util-linux, dosfstools and xfsprogs.

The tools run through an injected function: PID 1's, or a test's. All work on image files, too, and
``sfdisk`` also on disks in use: it doesn't have the kernel read the table again but announces each change
(BLKPG). Every error is a UserError that names the device and shows the tool's last line.
"""

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict, cast

from talos.system.block.blkid import Partition
from talos.system.errors import UserError
from talos.system.process import Finished, find_line

SFDISK = "/usr/sbin/sfdisk"
MKFS_XFS = "/usr/sbin/mkfs.xfs"
MKFS_VFAT = "/usr/sbin/mkfs.vfat"
XFS_GROWFS = "/usr/sbin/xfs_growfs"
XFS_REPAIR = "/usr/sbin/xfs_repair"

ALIGNMENT = 1 << 20
"""Bytes: where partitions begin and end."""
LINUX_TYPE = "0fc63daf-8483-4772-8e79-3d69d8477de4"
UNFINISHED = 50
"""GPT attribute bit (48 to 63 are for each type's own use) of a partition whose filesystem is being made."""
_KIB = 1024
_XFS_SUPPORTED = 300 << 20
"""Bytes below which mkfs.xfs needs --unsupported."""
_LOG_IS_DIRTY = 2
"""Exit code of xfs_repair when only a mount could replay the log."""

type Run = Callable[[Sequence[str], bytes], Awaitable[Finished]]
"""Runs a program with an input to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A GPT. ``first`` and ``end`` bound what partitions may use, in bytes."""

    uuid: str
    sector_size: int
    first: int
    end: int
    partitions: tuple[Partition, ...]

    def find(self, label: str) -> Partition | None:
        """The partition with a label, if there is one."""
        return next((row for row in self.partitions if row.label == label), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Room for a partition: bytes from the disk's begin, both ends aligned."""

    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition to make. In bytes; start and size are multiples of the alignment."""

    label: str
    start: int
    size: int
    type_uuid: str = LINUX_TYPE
    unfinished: bool = False


def find_gaps(table: Table, disk_size: int = 0) -> list[Gap]:
    """Where there is room, in order. ``disk_size`` in bytes, when the disk has become larger."""
    end = max(table.end, disk_size - ALIGNMENT) // ALIGNMENT * ALIGNMENT
    place = max(_align(table.first), ALIGNMENT)
    gaps: list[Gap] = []
    for row in sorted(table.partitions, key=lambda row: row.start):
        until = row.start // ALIGNMENT * ALIGNMENT
        if until > place:
            gaps.append(Gap(start=place, size=until - place))
        place = max(place, _align(row.start + row.size))
    if end > place:
        gaps.append(Gap(start=place, size=end - place))
    return gaps


def find_growth(table: Table, number: int, disk_size: int = 0) -> int:
    """Bytes that a partition could have more, without anything being moved."""
    row = next(row for row in table.partitions if row.number == number)
    end = _align(row.start + row.size)
    for gap in find_gaps(table, disk_size):
        if gap.start == end:
            return gap.start + gap.size - row.start - row.size
    return 0


async def read_table(run: Run, disk: str) -> Table:
    """The disk's GPT; UserError when there is none."""
    done = await _check(run, [SFDISK, "--json", disk], disk)
    try:
        found = cast("_Json", json.loads(done.stdout))["partitiontable"]
    except (ValueError, KeyError) as error:
        raise UserError(f"sfdisk's answer can't be read: {error}", where=disk) from None
    if found["label"] != "gpt":
        raise UserError(f"the partition table is of the kind {found['label']}, not gpt", where=disk)
    unit = found["sectorsize"]
    rows = [
        Partition(
            number=int(row["node"].removeprefix(found["device"]).removeprefix("p")),
            start=row["start"] * unit,
            size=row["size"] * unit,
            uuid=row["uuid"].lower(),
            label=row.get("name", ""),
            type_uuid=row["type"].lower(),
            flags=_parse_attributes(row.get("attrs", "")),
        )
        for row in found.get("partitions", ())
    ]
    return Table(
        uuid=found["id"].lower(),
        sector_size=unit,
        first=found["firstlba"] * unit,
        end=(found["lastlba"] + 1) * unit,
        partitions=tuple(sorted(rows, key=lambda row: row.number)),
    )


async def write_table(run: Run, disk: str, script: str) -> None:
    """Replace whatever table there is by one in sfdisk's script language; old signatures are erased."""
    await _check(run, [SFDISK, "--quiet", "--wipe=always", "--wipe-partitions=always", disk], disk, script)


def find_next_number(table: Table) -> int:
    """The number of the partition that :func:`append_partition` adds."""
    return max((row.number for row in table.partitions), default=0) + 1


async def append_partition(run: Run, disk: str, table: Table, part: NewPartition) -> Partition:
    """Add a partition to a disk that may be in use; the partition as it is now in the table."""
    number = find_next_number(table)
    argv = [SFDISK, "--quiet", "--append", "--no-reread", "--wipe-partitions=always", disk]
    await _check(run, argv, disk, _describe(number, part) + "\n")
    for row in (await read_table(run, disk)).partitions:
        if row.number == number:
            return row
    raise UserError(f"partition {number} is not there after it was made", where=disk)


async def grow_partition(run: Run, disk: str, number: int, size: int) -> None:
    """Make a partition larger (bytes), also while it is mounted; the table's second copy moves to the end."""
    await _check(
        run, [SFDISK, "--quiet", "-N", str(number), "--no-reread", disk], disk, f", {size // _KIB}KiB\n"
    )


async def mark_finished(run: Run, disk: str, number: int) -> None:
    """Remove the mark of a partition whose filesystem is being made."""
    await _check(run, [SFDISK, "--quiet", "--no-reread", "--part-attrs", disk, str(number), ""], disk)


async def mark_unfinished(run: Run, disk: str, number: int) -> None:
    """Mark a partition as one whose filesystem is being made."""
    mark = f"GUID:{UNFINISHED}"
    await _check(run, [SFDISK, "--quiet", "--no-reread", "--part-attrs", disk, str(number), mark], disk)


def is_unfinished(row: Partition) -> bool:
    """Whether making this partition's filesystem was begun and not ended."""
    return bool(row.flags >> UNFINISHED & 1)


async def delete_partitions(run: Run, disk: str, numbers: Sequence[int]) -> None:
    """Remove partitions from the table; their content stays where it is."""
    argv = [SFDISK, "--quiet", "--no-reread", "--delete", disk, *map(str, numbers)]
    await _check(run, argv, disk)


def find_concurrency(size: int, min_group: int) -> int:
    """For how many processors an XFS of so many bytes is made; 0: as for one."""
    groups = min(os.cpu_count() or 1, size // min_group)
    return groups if groups > 1 else 0


async def make_filesystem(
    run: Run,
    device: str,
    type: Literal["xfs", "vfat"],
    label: str,
    *,
    size: int = 0,
    sector_size: int = 512,
    concurrency: int | None = None,
) -> None:
    """Make a filesystem, whatever was there before. ``size`` of the device in bytes, when it is known.

    ``concurrency`` is that of an XFS (:func:`find_concurrency`); without it the program chooses.
    """
    if type == "vfat":
        # FAT32 needs 65525 clusters: 100 MiB hold as many only where sectors are small.
        width = ["-F", "32"] if sector_size == 512 else []
        await _check(run, [MKFS_VFAT, *width, "-n", label, device], device)
        return
    small = ["--unsupported"] if 0 < size < _XFS_SUPPORTED else []
    named = ["-L", label] if label else []
    shape = f"concurrency={concurrency}"
    shaped = ["-d", shape, "-l", shape] if concurrency is not None else []
    await _check(run, [MKFS_XFS, "-q", "-f", *small, *named, *shaped, device], device)


async def grow_filesystem(run: Run, target: str) -> None:
    """Let a mounted XFS take all of its partition."""
    await _check(run, [XFS_GROWFS, "-d", target], target)


async def repair_filesystem(run: Run, device: str, *, drop_log: bool = False) -> bool:
    """Repair an XFS that is not mounted; False when its log must be replayed by a mount first.

    ``drop_log`` repairs nevertheless: what was written last is lost.
    """
    argv = [XFS_REPAIR, *(["-L"] if drop_log else []), device]
    done = await run(argv, b"")
    if done.code == _LOG_IS_DIRTY and not drop_log:
        return False
    if done.code != 0:
        raise _make_error(argv, done, device)
    return True


def name_partition(disk: str, number: int) -> str:
    """The device of a disk's partition: after a digit a ``p`` comes first."""
    return f"{disk}{'p' if disk[-1].isdigit() else ''}{number}"


class _JsonRow(TypedDict):
    node: str
    start: int
    size: int
    type: str
    uuid: str
    name: NotRequired[str]
    attrs: NotRequired[str]


class _JsonTable(TypedDict):
    label: str
    id: str
    device: str
    firstlba: int
    lastlba: int
    sectorsize: int
    partitions: NotRequired[list[_JsonRow]]


class _Json(TypedDict):
    partitiontable: _JsonTable


def _align(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def _parse_attributes(text: str) -> int:
    """``RequiredPartition LegacyBIOSBootable GUID:50,63`` as bits."""
    bits = 0
    for word in text.replace("GUID:", "").replace(",", " ").split():
        known = {"RequiredPartition": 0, "NoBlockIOProtocol": 1, "LegacyBIOSBootable": 2}
        bits |= 1 << (known[word] if word in known else int(word))
    return bits


def _describe(number: int, part: NewPartition) -> str:
    mark = f', attrs="GUID:{UNFINISHED}"' if part.unfinished else ""
    return (
        f"{number} : start={part.start // _KIB}KiB, size={part.size // _KIB}KiB, "
        f'type={part.type_uuid}, name="{part.label}"{mark}'
    )


async def _check(run: Run, argv: Sequence[str], where: str, text: str = "") -> Finished:
    done = await run(argv, text.encode())
    if done.code != 0:
        raise _make_error(argv, done, where)
    return done


def _make_error(argv: Sequence[str], done: Finished, where: str) -> UserError:
    program = argv[0].rpartition("/")[2]
    # After the reason mkfs.xfs shows all of its options; sfdisk shows what went well before it.
    reason = find_line(done, 0 if program.startswith("mkfs") else -1)
    return UserError(f"{program} ended with {done.code}: {reason}", where=where)
