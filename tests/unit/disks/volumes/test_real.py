"""The same on a loop device, with sfdisk, mkfs, mount and repair for real, in small and large sectors."""

import shutil
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trio
from tests.unit.system.block.tools import needs_resize, run_tool

from talos.api.definitions import block_pb2
from talos.disks.volumes.blocks import KernelBlocks, NewFilesystem
from talos.disks.volumes.existing import open_existing
from talos.disks.volumes.mounting import CHANGEABLE, make_point, mount_volume, unmount_volume
from talos.disks.volumes.settle import settle
from talos.disks.volumes.specs import MIN_GROUP
from talos.disks.volumes.volume import VolumePlace, VolumeProgress, WantedVolume
from talos.disks.volumes.whole_disk import settle_disk
from talos.machined.boot.filesystems import make_missing_directory
from talos.system.block import partitions
from talos.system.block.blkid import Partition
from talos.system.block.layout import GIB, MIB
from talos.system.block.partitions import NewPartition, Table
from talos.system.block.rotation import is_rotational
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.mounts import KernelMounts, MountPoint
from talos.system.process import run_command

pytestmark = pytest.mark.root
LOG = Log(write=lambda _: None)
STATE = WantedVolume(
    label="STATE",
    filesystem_label="STATE",
    min_group=MIN_GROUP,
    minimum=100 * MIB,
    limit=lambda _: 100 * MIB,
    may_create=True,
)
EPHEMERAL = WantedVolume(
    label="EPHEMERAL",
    filesystem_label="EPHEMERAL",
    min_group=MIN_GROUP,
    minimum=GIB,
    grow=True,
    may_create=True,
)


DATA = WantedVolume(label="u-data", minimum=100 * MIB, may_create=True)
every_filesystem = pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
growing = pytest.mark.parametrize("filesystem", ["xfs", pytest.param("ext4", marks=needs_resize)])


class PowerCutError(Exception):
    """The power went."""


@dataclass
class LoopBlocks(KernelBlocks):
    """A disk image; its partitions are loop devices of their own: not every kernel looks into such.

    With ``cut`` the power goes before so many writes.
    """

    image: Path
    sectors: int
    cut: int = -1
    loops: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])
    disk: str = ""

    def __post_init__(self) -> None:
        super().__init__(run_tool)
        self.start()

    def start(self) -> None:
        """The machine starts: the kernel looks at everything anew."""
        self.stop()
        self.disk = self._attach()

    def stop(self) -> None:
        """The machine is off."""
        for _, device in self.loops.values():
            run_command(["losetup", "--detach", device])
        self.loops.clear()
        if self.disk:
            run_command(["losetup", "--detach", self.disk])
        self.disk = ""

    def _attach(self, *argv: str) -> str:
        command = ["losetup", "--find", "--show", "--sector-size", str(self.sectors), *argv, str(self.image)]
        return run_command(command).stdout.strip()

    def name_partition(self, disk: str, number: int) -> str:
        assert disk == self.disk
        _, device = self.loops.get(number, (0, ""))
        return device or f"{disk}p{number}"

    async def attach_partitions(self) -> None:
        """Have a device for every partition, of its present size."""
        for row in (await partitions.read_table(run_tool, self.disk)).partitions:
            size, device = self.loops.get(row.number, (0, ""))
            if size == row.size:
                continue
            if device:
                run_command(["losetup", "--detach", device])
            argv = ("--offset", str(row.start), "--sizelimit", str(row.size))
            self.loops[row.number] = row.size, self._attach(*argv)

    async def append(self, disk: str, table: Table, part: NewPartition) -> Partition:
        self._may_cut()
        row = await partitions.append_partition(run_tool, disk, table, part)
        await self.attach_partitions()
        return row

    async def grow(self, disk: str, number: int, size: int) -> None:
        self._may_cut()
        await partitions.grow_partition(run_tool, disk, number, size)
        await self.attach_partitions()

    async def erase(self, disk: str, start: int, size: int) -> None:
        self._may_cut()
        await super().erase(disk, start, size)

    async def mark(self, disk: str, number: int, *, finished: bool) -> None:
        self._may_cut()
        await super().mark(disk, number, finished=finished)

    async def format(self, device: str, filesystem: NewFilesystem) -> None:
        if self.cut == 0:
            # The superblock of something else: what is there then is not what blkid would call ours.
            await partitions.make_filesystem(run_tool, device, "xfs", "half", size=filesystem.size)
        self._may_cut()
        await super().format(device, filesystem)

    def _may_cut(self) -> None:
        if self.cut == 0:
            raise PowerCutError
        self.cut -= 1


@pytest.fixture(params=[512, 4096])
def blocks(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[LoopBlocks]:
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(2 * GIB)
    disk = LoopBlocks(image=image, sectors=request.param)
    trio.run(
        partitions.write_table, run_tool, disk.disk, "label: gpt\n1 : start=1MiB, size=1MiB, name=META\n"
    )
    yield disk
    disk.stop()


async def boot(disk: LoopBlocks, wanted: WantedVolume) -> VolumePlace:
    await disk.attach_partitions()
    place = await settle(disk, wanted, [disk.disk], LOG, VolumeProgress())
    assert place is not None
    # A loop device that another process looks at is detached later: a grown partition then gets another.
    return replace(place, device=disk.name_partition(place.disk, place.partition.number))


async def use(disk: LoopBlocks, place: VolumePlace, target: Path, visit: Callable[[Path], object]) -> None:
    """Mount, look, unmount."""
    mounts = KernelMounts()
    point = make_point(place, str(target), (), 0o700, quota=False)
    await mount_volume(disk, mounts, place, point, LOG, grow=True)
    try:
        visit(target)
    finally:
        assert await unmount_volume(mounts, str(target), LOG)


@growing
async def test_made_kept_and_grown(blocks: LoopBlocks, tmp_path: Path, filesystem: str) -> None:
    first, second = replace(STATE, filesystem=filesystem), replace(EPHEMERAL, filesystem=filesystem)
    state, rest = await boot(blocks, first), await boot(blocks, second)
    assert (state.content.name, state.content.label) == (filesystem, "STATE")
    await use(blocks, state, tmp_path / "state", lambda folder: (folder / "x").write_text("kept"))
    sizes: list[int] = []
    await use(blocks, rest, tmp_path / "var", lambda folder: sizes.append(shutil.disk_usage(folder).total))
    blocks.stop()
    with blocks.image.open("r+b") as file:
        file.truncate(4 * GIB)
    blocks.start()
    state, rest = await boot(blocks, first), await boot(blocks, second)
    assert rest.partition.start + rest.partition.size == 4 * GIB - MIB
    texts: list[str] = []
    await use(blocks, state, tmp_path / "state", lambda folder: texts.append((folder / "x").read_text()))
    assert texts == ["kept"]
    rest_size = rest.content.filesystem_size
    if rest_size:  # the libblkid of older hosts doesn't report it
        await use(
            blocks, rest, tmp_path / "var", lambda folder: sizes.append(shutil.disk_usage(folder).total)
        )
        assert sizes[1] - sizes[0] > 1.8 * GIB


@every_filesystem
@pytest.mark.parametrize("cut", range(6))
async def test_a_power_cut(blocks: LoopBlocks, tmp_path: Path, filesystem: str, cut: int) -> None:
    blocks.cut, state = cut, replace(STATE, filesystem=filesystem)
    with suppress(PowerCutError):
        await boot(blocks, state)
    blocks.start()
    blocks.cut = -1
    place = await boot(blocks, state)
    assert (place.content.name, place.content.label) == (filesystem, "STATE")
    await use(blocks, place, tmp_path / "state", lambda folder: (folder / "x").write_text("x"))
    table = await partitions.read_table(run_tool, blocks.disk)
    assert [(row.label, row.flags) for row in table.partitions] == [("META", 0), ("STATE", 0)]


@pytest.mark.parametrize(
    ("filesystem", "magic", "place"),
    [("xfs", 0, 0), ("xfs", 0, 224), ("ext4", 1080, 1080), ("ext4", 1080, 2044)],
)
async def test_a_broken_superblock(
    blocks: LoopBlocks, tmp_path: Path, filesystem: str, magic: int, place: int
) -> None:
    """With a wrong checksum it is repaired; without its magic it is unknown, and is not formatted."""
    # An ext4 of 4 KiB blocks has a second superblock from 128 MiB on.
    wanted = replace(STATE, filesystem=filesystem, minimum=200 * MIB)
    state = await boot(blocks, wanted)
    await use(blocks, state, tmp_path / "state", lambda folder: (folder / "x").write_text("kept"))
    with Path(state.device).open("r+b") as file:  # noqa: ASYNC230 - a test
        file.seek(place)
        file.write(b"\xff\xff\xff\xff")
    if place == magic:
        with pytest.raises(UserError, match="holds unrecognised data"):
            await boot(blocks, wanted)
        return
    state = await boot(blocks, wanted)
    texts: list[str] = []
    await use(blocks, state, tmp_path / "state", lambda folder: texts.append((folder / "x").read_text()))
    assert texts == ["kept"]


async def test_a_foreign_filesystem(blocks: LoopBlocks) -> None:
    state = await boot(blocks, STATE)
    with Path(state.device).open("r+b") as file:  # noqa: ASYNC230 - a test
        file.write(bytes(MIB))
        file.seek(0x8000)
        file.write(b"\1CD001\1".ljust(2048, b"\0") + b"\xffCD001\1".ljust(2048, b"\0"))
    with pytest.raises(UserError, match="holds iso9660, no xfs"):
        await boot(blocks, STATE)


def empty(blocks: LoopBlocks) -> None:
    with Path(blocks.disk).open("r+b") as file:
        for place in (0, 2 * GIB - MIB):
            file.seek(place)
            file.write(bytes(MIB))
    blocks.start()


async def test_a_partition_on_a_blank_disk(blocks: LoopBlocks, tmp_path: Path) -> None:
    empty(blocks)
    place = await settle(blocks, DATA, [blocks.disk], LOG, VolumeProgress())
    assert place is not None
    assert place.partition.size == 2 * GIB - 2 * MIB
    await use(blocks, await boot(blocks, DATA), tmp_path / "data", lambda path: (path / "x").write_text("x"))


@every_filesystem
async def test_a_whole_disk(blocks: LoopBlocks, tmp_path: Path, filesystem: str) -> None:
    data = replace(DATA, filesystem=filesystem)
    with pytest.raises(UserError, match=f"holds gpt, no {filesystem}"):
        await settle_disk(blocks, data, [blocks.disk], LOG, VolumeProgress())
    empty(blocks)
    place = await settle_disk(blocks, data, [blocks.disk], LOG, VolumeProgress())
    await use(blocks, place, tmp_path / "data", lambda path: (path / "x").write_text("kept"))
    blocks.start()
    other = replace(DATA, filesystem="xfs" if filesystem == "ext4" else "ext4")
    with pytest.raises(UserError, match=f"holds {filesystem}, no {other.filesystem}"):
        await settle_disk(blocks, other, [blocks.disk], LOG, VolumeProgress())
    place = await settle_disk(blocks, data, [blocks.disk], LOG, VolumeProgress())
    texts: list[str] = []
    await use(blocks, place, tmp_path / "data", lambda path: texts.append((path / "x").read_text()))
    assert texts == ["kept"]


async def test_a_volume_of_someone_else_is_mounted_as_it_is(blocks: LoopBlocks, tmp_path: Path) -> None:
    empty(blocks)
    place = await settle_disk(blocks, DATA, [blocks.disk], LOG, VolumeProgress())
    target = tmp_path / "data"
    await use(blocks, place, target, lambda path: ((path / "x").write_text("kept"), path.chmod(0o710)))
    found = block_pb2.DiscoveredVolumeSpec(dev_path=blocks.disk)
    place = await open_existing(blocks, found, "here")
    point = make_point(place, str(target), ("ro",), 0o755, quota=False)
    mounts = KernelMounts()
    await mount_volume(blocks, mounts, place, point, LOG, is_own=False)
    try:
        assert (target / "x").read_text() == "kept"
        assert target.stat().st_mode & 0o777 == 0o710
        with pytest.raises(OSError, match="Read-only file system"):
            (target / "y").touch()
    finally:
        assert await unmount_volume(mounts, str(target), LOG)


async def test_options_change_while_it_is_mounted(blocks: LoopBlocks, tmp_path: Path) -> None:
    place = await boot(blocks, STATE)
    target, mounts = tmp_path / "data", KernelMounts()
    point = make_point(place, str(target), ("ro", "nodev"), 0o755, quota=False)
    await mount_volume(blocks, mounts, place, point, LOG, is_own=False)

    def options() -> set[str]:
        (mount,) = (mount for mount in mounts.list() if mount.target == str(target))
        return {*mount.options}

    try:
        mounts.change_options(str(target), ("nosuid", "noexec", "noatime"))
        assert options() & CHANGEABLE == {"nosuid", "noexec", "noatime"}
        (target / "x").write_text("x")
        mounts.change_options(str(target), ("ro",))
        assert options() & {*CHANGEABLE, "relatime"} == {"ro", "relatime"}
        with (target / "x").open(), pytest.raises(OSError, match="Read-only file system"):
            (target / "y").touch()
    finally:
        assert await unmount_volume(mounts, str(target), LOG)


async def test_whether_a_disk_rotates(blocks: LoopBlocks) -> None:
    found = Path(f"/sys/block/{Path(blocks.disk).name}/queue/rotational").read_text()  # noqa: ASYNC240 - a test
    assert is_rotational(blocks.disk) == (found.strip() == "1")


async def test_nothing_is_written_where_a_guarded_volume_is_missing(
    blocks: LoopBlocks, tmp_path: Path
) -> None:
    outer, inner = await boot(blocks, EPHEMERAL), tmp_path / "var"
    mount = make_point(outer, str(inner), (), 0o700, quota=False)
    mounts = KernelMounts()
    await mount_volume(blocks, mounts, outer, mount, LOG)
    target = inner / "data"
    try:
        mounts.mount(
            MountPoint(source="tmpfs", target=str(target), type="tmpfs", options=(), mode=0o755, guarded=True)
        )
        (target / "x").touch()
        mounts.unmount(str(target))
        with pytest.raises(PermissionError):
            (target / "x").touch()
        make_missing_directory(str(target), 0o755)
        (target / "x").touch()
    finally:
        assert await unmount_volume(mounts, str(inner), LOG)
