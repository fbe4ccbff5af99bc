"""sfdisk, mkfs.xfs and libblkid on image files and, for other sectors, on loop devices."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.system.block.tools import run_tool

from talos.system.block import partitions
from talos.system.block.blkid import AmbiguousContentError, probe
from talos.system.block.meta import make_meta
from talos.system.block.partitions import NewPartition
from talos.system.errors import UserError
from talos.system.process import run_command

MIB, GIB = 1 << 20, 1 << 30
SIZE = 2048 * MIB


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(SIZE)
    return path


@pytest.fixture(params=[512, 4096])
def loop(request: pytest.FixtureRequest, image: Path) -> Generator[str]:
    sectors = str(request.param)
    device = run_command(["losetup", "--find", "--show", "--sector-size", sectors, str(image)]).stdout.strip()
    yield device
    run_command(["losetup", "--detach", device])


async def make_disk(disk: str) -> partitions.Table:
    script = "label: gpt\n1 : start=1MiB, size=9MiB, name=BOOT\n2 : start=10MiB, size=1MiB, name=META\n"
    await partitions.write_table(run_tool, disk, script)
    return await partitions.read_table(run_tool, disk)


async def check_life(disk: str, image: Path) -> None:
    table = await make_disk(disk)
    assert [(row.number, row.label, row.start, row.size) for row in table.partitions] == [
        (1, "BOOT", MIB, 9 * MIB),
        (2, "META", 10 * MIB, MIB),
    ]
    (gap,) = partitions.find_gaps(table)
    assert (gap.start, gap.size) == (11 * MIB, SIZE - 12 * MIB)
    part = NewPartition(label="STATE", start=gap.start, size=100 * MIB, unfinished=True)
    row = await partitions.append_partition(run_tool, disk, table, part)
    assert (row.number, row.start, row.size, row.label) == (3, 11 * MIB, 100 * MIB, "STATE")
    assert partitions.is_unfinished(row)
    assert row in probe(Path(disk)).partitions
    await partitions.mark_finished(run_tool, disk, 3)
    assert not any(map(partitions.is_unfinished, probe(Path(disk)).partitions))
    await partitions.mark_unfinished(run_tool, disk, 3)
    assert partitions.is_unfinished(probe(Path(disk)).partitions[2])

    os.truncate(image, 2 * SIZE)
    if disk != str(image):
        run_command(["losetup", "--set-capacity", disk])
    table = await partitions.read_table(run_tool, disk)
    more = partitions.find_growth(table, 3, 2 * SIZE)
    assert more == 2 * SIZE - 112 * MIB
    assert partitions.find_growth(table, 1, 2 * SIZE) == 0
    await partitions.grow_partition(run_tool, disk, 3, row.size + more)
    table = await partitions.read_table(run_tool, disk)
    assert table.partitions[2].start + table.partitions[2].size == 2 * SIZE - MIB
    assert partitions.is_unfinished(table.partitions[2]), "growing keeps a partition's flags"
    assert table.partitions[2].uuid == row.uuid
    await partitions.delete_partitions(run_tool, disk, [1, 3])
    assert [row.label for row in (await partitions.read_table(run_tool, disk)).partitions] == ["META"]


async def test_on_a_file(image: Path) -> None:
    await check_life(str(image), image)


@pytest.mark.root
async def test_on_a_device(loop: str, image: Path) -> None:
    await check_life(loop, image)
    table = await partitions.read_table(run_tool, loop)
    assert table.sector_size == probe(Path(loop)).sector_size


@pytest.mark.root
async def test_while_the_disk_is_in_use(loop: str) -> None:
    """No other process may have it whole, as when one of its partitions is mounted."""
    table = await make_disk(loop)
    descriptor = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        part = NewPartition(label="STATE", start=20 * MIB, size=100 * MIB)
        assert (await partitions.append_partition(run_tool, loop, table, part)).label == "STATE"
        await partitions.grow_partition(run_tool, loop, 3, 200 * MIB)
    finally:
        os.close(descriptor)
    assert (await partitions.read_table(run_tool, loop)).partitions[2].size == 200 * MIB


async def test_errors_name_device_and_reason(image: Path) -> None:
    with pytest.raises(UserError, match=rf"{image}: sfdisk ended with 1: .*does not contain a recognized"):
        await partitions.read_table(run_tool, str(image))
    with pytest.raises(UserError, match=r"/nowhere: sfdisk ended with 1: sfdisk: cannot open /nowhere"):
        await partitions.read_table(run_tool, "/nowhere")


async def test_a_hole_is_found_again(image: Path) -> None:
    disk = str(image)
    table = await make_disk(disk)
    for start in (11, 111):
        part = NewPartition(label=f"P{start}", start=start * MIB, size=100 * MIB)
        await partitions.append_partition(run_tool, disk, table, part)
        table = await partitions.read_table(run_tool, disk)
    await partitions.delete_partitions(run_tool, disk, [3])
    gaps = partitions.find_gaps(await partitions.read_table(run_tool, disk))
    assert [(gap.start, gap.size) for gap in gaps] == [
        (11 * MIB, 100 * MIB),
        (211 * MIB, SIZE - 212 * MIB),
    ]


@pytest.mark.parametrize(("concurrency", "groups"), [(None, 4), (0, 4), (8, 8)])
async def test_an_allocation_group_for_each_processor(
    tmp_path: Path, concurrency: int | None, groups: int
) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(64 * GIB)
    await partitions.make_filesystem(run_tool, str(path), "xfs", "", concurrency=concurrency)
    with path.open("rb") as file:
        file.seek(88)  # sb_agcount
        assert int.from_bytes(file.read(4)) == groups


def test_processors_that_an_xfs_is_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    found = [partitions.find_concurrency(size * GIB, 64 * GIB) for size in (1, 127, 128, 320, 6400)]
    assert found == [0, 0, 2, 5, 8]


async def test_what_is_on_it(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(bytes(MIB))
    assert probe(path).kind == ""
    path.write_bytes(make_meta({6: b"A"}).ljust(MIB, b"\0"))
    assert (probe(path).kind, probe(path).name) == ("raw", "talosmeta")
    path.write_bytes(bytes(MIB))
    os.truncate(path, 100 * MIB)
    await partitions.make_filesystem(run_tool, str(path), "xfs", "STATE", size=100 * MIB)
    found = probe(path)
    assert (found.kind, found.name, found.label) == ("filesystem", "xfs", "STATE")
    assert found.size == 100 * MIB
    # The libblkid of older hosts doesn't report it; the image's does.
    assert found.filesystem_size in (0, 100 * MIB)
    assert await partitions.repair_filesystem(run_tool, str(path))
    with path.open("r+b") as file:
        file.seek(1024)
        file.write(
            bytes(0x38) + b"\x53\xef" + bytes(1024 - 0x3A)
        )  # a superblock of ext2, as far as it matters
    with pytest.raises(AmbiguousContentError):
        probe(path)
    with pytest.raises(FileNotFoundError):
        probe(tmp_path / "nothing")
