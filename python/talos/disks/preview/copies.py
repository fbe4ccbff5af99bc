"""Disks as a node's resources show them, and copies of their tables that volumes are made in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import override

from talos.api.definitions import block_pb2, storage_pb2
from talos.disks.installation import find_installed
from talos.disks.volumes.blocks import Tables
from talos.disks.volumes.volume import GPT
from talos.resource.resource import Resource
from talos.system.block.blkid import Content, Partition
from talos.system.block.lvm import LvmReport
from talos.system.block.partitions import (
    ALIGNMENT,
    NewPartition,
    Table,
    find_gaps,
    find_next_number,
    name_partition,
)

_TABLES = frozenset({"dos", GPT})


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevices:
    """The resources that show what is on a node's disks; ``disks`` by their ids."""

    volumes: Sequence[Resource[block_pb2.DiscoveredVolumeSpec]] = ()
    disks: Mapping[str, block_pb2.DiskSpec] = field(default_factory=dict[str, block_pb2.DiskSpec])
    arrays: Sequence[Resource[storage_pb2.MDArrayStatusSpec]] = ()
    lvm: LvmReport = field(default_factory=LvmReport)

    @property
    def system(self) -> tuple[str, str]:
        """Device and id of the disk with the system; both empty where nothing is installed."""
        found = find_installed(volume.spec for volume in self.volumes)
        return next((one for one in found if one[1] in self.disks), ("", ""))


class TableCopies(Tables):
    """Copies of the partition tables: what the making of a partition calls, and no more than that.

    What a filesystem would hold is not in them: a disk without known content is taken for a blank one.
    """

    def __init__(self, found: FoundDevices) -> None:
        self._sizes = {spec.dev_path: spec.size for spec in found.disks.values()}
        self._rows: dict[str, tuple[Partition, ...]] = dict.fromkeys(self._sizes, ())
        self.contents = dict.fromkeys(self._sizes, "")
        """What is on each device, by libblkid's names."""
        for volume in sorted(found.volumes, key=lambda volume: volume.spec.offset):
            spec = volume.spec
            self.contents[spec.dev_path] = spec.name
            if spec.parent_dev_path in self._rows:
                self._rows[spec.parent_dev_path] += (_parse_row(spec),)

    @property
    def disks(self) -> Sequence[str]:
        """The devices of all disks, sorted."""
        return sorted(self._sizes)

    def find_size(self, device: str) -> int:
        """Bytes of a disk or a partition."""
        rows = ((name_partition(disk, row.number), row) for disk in self._rows for row in self._rows[disk])
        return self._sizes.get(device) or next((row.size for name, row in rows if name == device), 0)

    def find_free(self, disk: str) -> int:
        """Bytes in which there may be new partitions."""
        kind, rows = self.contents[disk], self._rows[disk]
        if kind not in {"", GPT} or (rows and not kind):
            return 0
        return sum(gap.size for gap in find_gaps(self._make_table(disk)))

    def list_rows(self, disk: str) -> Sequence[Partition]:
        """The partitions in the order of their places."""
        return sorted(self._rows[disk], key=lambda row: row.start)

    @override
    async def probe(self, device: str) -> Content:
        name = self.contents[device]
        return Content(
            kind="partition-table" if name in _TABLES else "filesystem" if name else "",
            name=name,
            size=self._sizes[device],
            partitions=self._rows[device],
        )

    @override
    async def read_head(self, device: str) -> bytes:
        return b""

    @override
    async def read_table(self, disk: str) -> Table:
        return self._make_table(disk)

    @override
    async def make_table(self, disk: str) -> None:
        self.contents[disk] = GPT

    @override
    async def erase(self, disk: str, start: int, size: int) -> None:
        pass

    @override
    async def append(self, disk: str, table: Table, part: NewPartition) -> Partition:
        row = Partition(
            number=find_next_number(table),
            start=part.start,
            size=part.size,
            label=part.label,
            type_uuid=part.type_uuid,
        )
        self._rows[disk] += (row,)
        return row

    @override
    async def grow(self, disk: str, number: int, size: int) -> None:
        rows = self._rows[disk]
        self._rows[disk] = tuple(replace(row, size=size) if row.number == number else row for row in rows)

    @override
    async def repair(self, device: str, filesystem: str, *, force: bool) -> bool:
        return False

    @override
    def name_partition(self, disk: str, number: int) -> str:
        return name_partition(disk, number)

    def _make_table(self, disk: str) -> Table:
        return Table(
            uuid="",
            sector_size=0,
            first=ALIGNMENT,
            end=self._sizes[disk] - ALIGNMENT,
            partitions=self._rows[disk],
        )


def _parse_row(spec: block_pb2.DiscoveredVolumeSpec) -> Partition:
    return Partition(
        number=spec.partition_index,
        start=spec.offset,
        size=spec.size,
        uuid=spec.partition_uuid,
        label=spec.partition_label,
        type_uuid=spec.partition_type,
    )
