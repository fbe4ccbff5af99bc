"""The interface of volumes to disks, and its implementation for the kernel's disks."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, override

import trio

from talos.system.block import ext4, partitions, swap
from talos.system.block.blkid import Content, Partition, probe
from talos.system.block.blkpg import notify_kernel
from talos.system.block.partitions import NewPartition, Run, Table
from talos.system.block.rotation import is_rotational
from talos.system.block.wipe import EDGE, wipe_edges

XFS, EXT4 = "xfs", "ext4"
"""What a device is formatted with, by the kernel's names, which are libblkid's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFilesystem:
    """A filesystem to make. ``size`` is that of its device, ``min_group`` an XFS' smallest group, in bytes.

    On a disk that doesn't rotate an XFS has an allocation group for each processor, as far as they have
    ``min_group`` bytes; with 0 that is up to ``mkfs.xfs``.
    """

    type: str
    label: str = ""
    size: int
    min_group: int = 0


class Tables(Protocol):
    """Disks with their partition tables. UserError when a tool fails, OSError when the disk does."""

    async def probe(self, device: str) -> Content:
        """What is on a disk or partition."""
        ...

    async def read_head(self, device: str) -> bytes:
        """The first bytes of a partition or disk, as many as :data:`EDGE`."""
        ...

    async def read_table(self, disk: str) -> Table:
        """The disk's partition table."""
        ...

    async def make_table(self, disk: str) -> None:
        """Make an empty partition table."""
        ...

    async def erase(self, disk: str, start: int, size: int) -> None:
        """Make both ends of a part of a disk zero, on the disk itself when this returns."""
        ...

    async def append(self, disk: str, table: Table, part: NewPartition) -> Partition:
        """Add a partition."""
        ...

    async def grow(self, disk: str, number: int, size: int) -> None:
        """Make a partition larger."""
        ...

    async def repair(self, device: str, filesystem: str, *, force: bool) -> bool:
        """Repair a filesystem that isn't mounted; False when that loses something, unless ``force`` has it.

        Of XFS that is a log which has to be replayed or dropped first.
        """
        ...

    def name_partition(self, disk: str, number: int) -> str:
        """A partition's device."""
        ...


class Blocks(Tables, Protocol):
    """The same with what partitions hold."""

    async def mark(self, disk: str, number: int, *, finished: bool) -> None:
        """Mark the partition's filesystem as complete or not."""
        ...

    async def format(self, device: str, filesystem: NewFilesystem) -> None:
        """Make a filesystem, on the disk itself when this returns."""
        ...

    async def check(self, device: str, filesystem: str) -> bool:
        """Repair what a filesystem has recorded as broken; False when it needs :meth:`repair`.

        In a moment, when there is nothing. A mount does it for XFS.
        """
        ...

    async def make_swap(self, device: str) -> None:
        """Make a device swap, on the disk itself when this returns."""
        ...

    async def start_swap(self, device: str) -> None:
        """Let the kernel swap to a device."""
        ...

    async def end_swap(self, device: str) -> None:
        """End that; OSError when memory has no room for what comes back."""
        ...

    async def grow_filesystem(self, device: str, filesystem: str, target: str) -> bool:
        """Grow a mounted filesystem to the size of its device; whether it has become larger."""
        ...

    async def set_mode(self, target: str, mode: int) -> None:
        """The mode of a mounted filesystem's own folder."""
        ...


class KernelBlocks(Blocks):
    """The disks of the running system; ``run`` runs programs."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @override
    async def probe(self, device: str) -> Content:
        return await trio.to_thread.run_sync(probe, Path(device))

    @override
    async def read_head(self, device: str) -> bytes:
        return await trio.to_thread.run_sync(_read_head, device)

    @override
    async def read_table(self, disk: str) -> Table:
        return await partitions.read_table(self._run, disk)

    @override
    async def make_table(self, disk: str) -> None:
        await partitions.write_table(self._run, disk, "label: gpt\n")

    @override
    async def erase(self, disk: str, start: int, size: int) -> None:
        await trio.to_thread.run_sync(_erase, disk, start, size)

    @override
    async def append(self, disk: str, table: Table, part: NewPartition) -> Partition:
        added = await partitions.append_partition(self._run, disk, table, part)
        await self._notify_kernel(disk, added)
        return added

    @override
    async def mark(self, disk: str, number: int, *, finished: bool) -> None:
        change = partitions.mark_finished if finished else partitions.mark_unfinished
        await change(self._run, disk, number)

    @override
    async def grow(self, disk: str, number: int, size: int) -> None:
        await partitions.grow_partition(self._run, disk, number, size)
        table = await partitions.read_table(self._run, disk)
        await self._notify_kernel(disk, next(row for row in table.partitions if row.number == number))

    async def _notify_kernel(self, disk: str, row: Partition) -> None:
        device = self.name_partition(disk, row.number)
        await trio.to_thread.run_sync(notify_kernel, disk, device, row.number, row.start, row.size)

    @override
    async def format(self, device: str, filesystem: NewFilesystem) -> None:
        if filesystem.type == EXT4:
            await ext4.make_ext4(self._run, device, filesystem.label)
            return
        size, min_group = filesystem.size, filesystem.min_group
        rotates = await trio.to_thread.run_sync(is_rotational, device)
        concurrency = partitions.find_concurrency(size, min_group) if min_group and not rotates else None
        await partitions.make_filesystem(
            self._run, device, "xfs", filesystem.label, size=size, concurrency=concurrency
        )
        await trio.to_thread.run_sync(_flush, device)

    @override
    async def check(self, device: str, filesystem: str) -> bool:
        return filesystem != EXT4 or await ext4.check_ext4(self._run, device)

    @override
    async def repair(self, device: str, filesystem: str, *, force: bool) -> bool:
        if filesystem == EXT4:
            return await ext4.repair_ext4(self._run, device, force=force)
        return await partitions.repair_filesystem(self._run, device, drop_log=force)

    @override
    async def make_swap(self, device: str) -> None:
        await trio.to_thread.run_sync(swap.make_swap, device)

    @override
    async def start_swap(self, device: str) -> None:
        await trio.to_thread.run_sync(swap.start_swap, device)

    @override
    async def end_swap(self, device: str) -> None:
        await trio.to_thread.run_sync(swap.end_swap, device)

    @override
    async def grow_filesystem(self, device: str, filesystem: str, target: str) -> bool:
        before = os.statvfs(target).f_blocks
        if filesystem == EXT4:
            await trio.to_thread.run_sync(ext4.grow_ext4, device, target)
        else:
            await partitions.grow_filesystem(self._run, target)
        return os.statvfs(target).f_blocks > before

    @override
    async def set_mode(self, target: str, mode: int) -> None:
        await trio.to_thread.run_sync(Path(target).chmod, mode)

    @override
    def name_partition(self, disk: str, number: int) -> str:
        return partitions.name_partition(disk, number)


def _read_head(device: str) -> bytes:
    with open(device, "rb") as file:  # noqa: PTH123 - a device
        return file.read(EDGE)


def _erase(disk: str, start: int, size: int) -> None:
    descriptor = os.open(disk, os.O_RDWR | os.O_CLOEXEC)
    try:
        wipe_edges(descriptor, start, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush(device: str) -> None:
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
