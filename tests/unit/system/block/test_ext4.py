"""ext4 for real, on a loop device: made, killed while it is made, grown, damaged and repaired."""

import errno
import os
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from tests.unit.system.block.tools import needs_resize, run_tool

from talos.system.block import ext4
from talos.system.block.blkid import probe
from talos.system.block.layout import GIB, MIB
from talos.system.errors import UserError
from talos.system.mounts import KernelMounts, MountPoint
from talos.system.process import Finished, run_command

pytestmark = pytest.mark.root


@pytest.fixture(params=[512, 4096])
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(GIB)
    argv = ["losetup", "--find", "--show", "--sector-size", str(request.param), str(image)]
    found = run_command(argv).stdout.strip()
    yield found
    run_command(["losetup", "--detach", found])


@pytest.fixture
def target(device: str, tmp_path: Path) -> Generator[Path]:
    """Where the device is mounted by :func:`mount`."""
    found = tmp_path / "target"
    found.mkdir()
    yield found
    for mounted in KernelMounts().list():
        if mounted.source == device:
            KernelMounts().unmount(mounted.target)


def mount(device: str, target: Path) -> None:
    KernelMounts().mount(MountPoint(source=device, target=str(target), type="ext4", options=("nosuid",)))


def read(device: str, place: int, size: int) -> bytes:
    with Path(device).open("rb") as file:
        file.seek(place)
        return file.read(size)


def write(device: str, place: int, content: bytes) -> None:
    with Path(device).open("r+b") as file:
        file.seek(place)
        file.write(content)


async def test_made_with_a_label(device: str, target: Path) -> None:
    write(device, 0x8000, b"\1CD001\1".ljust(2048, b"\0") + b"\xffCD001\1".ljust(2048, b"\0"))
    await ext4.make_ext4(run_tool, device, "data")
    found = probe(Path(device))
    assert (found.kind, found.name, found.label) == ("filesystem", "ext4", "data")
    assert read(device, 0, 1024) == bytes(1024)
    assert await ext4.check_ext4(run_tool, device)
    mount(device, target)
    assert os.listdir(target) == ["lost+found"]  # noqa: PTH208 - a test
    with pytest.raises(OSError, match=os.strerror(errno.EBUSY)):
        await ext4.make_ext4(run_tool, device, "data")


async def test_the_mark_is_there_until_all_is_made(device: str) -> None:
    """``mke2fs`` keeps a sector that looks like a BSD disk's label: what begins with it is never in use."""
    marks: list[bool] = []

    async def run(argv: Sequence[str], stdin: bytes) -> Finished:
        marks.append(read(device, 0, ext4.SECTOR) == ext4.MARK)
        assert not probe(Path(device)).partitions
        done = await run_tool(argv, stdin)
        marks.append(read(device, 0, ext4.SECTOR) == ext4.MARK)
        assert probe(Path(device)).name == "ext4"
        return done

    await ext4.make_ext4(run, device, "")
    assert marks == [True, True]
    assert not read(device, 0, ext4.SECTOR).strip(b"\0")


async def test_what_has_failed_is_still_marked(device: str) -> None:
    async def run(argv: Sequence[str], stdin: bytes) -> Finished:
        return Finished(code=1, stdout=b"", stderr=b"mke2fs: no")

    with pytest.raises(UserError, match=f"{device}: mke2fs ended with 1: mke2fs: no"):
        await ext4.make_ext4(run, device, "")
    assert read(device, 0, ext4.SECTOR) == ext4.MARK


@needs_resize
async def test_it_grows_while_it_is_mounted(device: str, target: Path) -> None:
    await ext4.make_ext4(run_tool, device, "")
    mount(device, target)
    (target / "x").write_text("kept")
    before = os.statvfs(target).f_blocks
    ext4.grow_ext4(device, str(target))
    assert os.statvfs(target).f_blocks == before
    os.truncate(target.parent / "disk", 40 * GIB)
    run_command(["losetup", "--set-capacity", device])
    ext4.grow_ext4(device, str(target))
    found = os.statvfs(target)
    assert found.f_blocks * found.f_frsize > 39 * GIB
    assert (target / "x").read_text() == "kept"
    KernelMounts().unmount(str(target))
    assert await ext4.repair_ext4(run_tool, device, force=False)
    assert 40 * GIB - probe(Path(device)).filesystem_size < 128 * MIB


async def damage(device: str, command: str) -> None:
    """Change something in a filesystem in which the kernel has found errors."""
    for each in ("set_super_value state 2", command):
        done = await run_tool(["debugfs", "-w", "-R", each, device], b"")
        assert done.code == 0


async def test_recorded_errors_are_repaired_by_a_check(device: str, target: Path) -> None:
    await ext4.make_ext4(run_tool, device, "")
    await damage(device, "clri lost+found")
    assert await ext4.check_ext4(run_tool, device)
    mount(device, target)
    assert os.listdir(target) == ["lost+found"]  # noqa: PTH208 - a test


async def test_what_takes_decisions_is_repaired_by_force(device: str, target: Path) -> None:
    await ext4.make_ext4(run_tool, device, "")
    mount(device, target)
    (target / "x").write_text("kept")
    KernelMounts().unmount(str(target))
    await damage(device, "set_bg 0 inode_bitmap 5")
    assert not await ext4.check_ext4(run_tool, device)
    assert not await ext4.repair_ext4(run_tool, device, force=False)
    assert await ext4.repair_ext4(run_tool, device, force=True)
    assert await ext4.check_ext4(run_tool, device)
    mount(device, target)
    assert (target / "x").read_text() == "kept"


async def test_a_superblock_comes_back_from_its_copy(device: str) -> None:
    await ext4.make_ext4(run_tool, device, "data")
    write(device, 1024 + 0x78, b"other")
    assert probe(Path(device)).name == ""
    assert ext4.has_superblock(read(device, 0, 4096))
    assert not await ext4.repair_ext4(run_tool, device, force=False)
    assert await ext4.repair_ext4(run_tool, device, force=True)
    assert (probe(Path(device)).name, probe(Path(device)).label) == ("ext4", "data")


async def test_what_is_no_ext4_is_not_repaired(device: str) -> None:
    assert not ext4.has_superblock(bytes(4096))
    with pytest.raises(UserError, match=rf"{device}: e2fsck ended with 8: "):
        await ext4.repair_ext4(run_tool, device, force=True)
    assert not any(read(device, 0, MIB))
