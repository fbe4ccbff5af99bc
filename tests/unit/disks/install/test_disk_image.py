"""Disks as the real tools make them: the image of the build, and an installation to a file."""

import hashlib
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from talos.disks.install.grub import GrubSystem
from talos.disks.install.install import STEPS, run_install
from talos.disks.install.job import Job
from talos.disks.install.make_disk import DiskImage, main, make_disk, parse_image_size
from talos.disks.install.plan import InstallPlan
from talos.system.block.blkid import probe
from talos.system.block.layout import BIOS, BOOT, GIB, MIB, Placed, place_areas
from talos.system.block.meta import parse_meta
from talos.system.block.target import BlockTarget
from talos.system.errors import UserError
from talos.system.mounts import KernelMounts
from talos.system.process import Finished, run_command
from talos.upgrade.slots.grub.loader import BootImages

from .world import BOOT as IMAGES
from .world import make_disk as describe_disk
from .world import make_request, make_source

PLACES = {placed.area.label: placed for placed in place_areas()}
LABELS = ["EFI", "BIOS", "BOOT", "META"]

needs_tools = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("sfdisk", "mkfs.xfs", "mkfs.vfat")),
    reason="needs tools for disks",
)
needs_mtools = pytest.mark.skipif(not shutil.which("mcopy"), reason="needs mtools")


def make_image(folder: Path, boot: BootImages = IMAGES) -> DiskImage:
    folder.mkdir(exist_ok=True)
    kernel, initramfs = folder / "the kernel", folder / "initramfs"
    kernel.write_bytes(b"kernel" * 3000)
    initramfs.write_bytes(b"070701" * 90_000)
    return DiskImage(size=2200 * MIB, version="v1.15.0", kernel=kernel, initramfs=initramfs, boot=boot)


def hash_data(path: Path) -> str:
    """A digest of all that is not zero: holes, which are most of a new disk, are not read."""
    digest, size, place = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb", buffering=0) as file:
        while place < size:
            try:
                start = os.lseek(file.fileno(), place, os.SEEK_DATA)
            except OSError:
                break  # a hole up to the end
            place = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            file.seek(start)
            for offset in range(start, place, 4096):
                if (piece := file.read(min(4096, place - offset))).strip(b"\0"):
                    digest.update(b"%d " % offset + piece)
    return digest.hexdigest()


@needs_tools
@needs_mtools
def test_the_same_inputs_give_the_same_image(tmp_path: Path) -> None:
    image = make_image(tmp_path / "in")
    first, second = tmp_path / "first.raw", tmp_path / "second.raw"
    make_disk(image, first)
    make_disk(image, second)
    assert hash_data(first) == hash_data(second)
    assert first.stat().st_blocks * 512 < 100 * MIB
    found = probe(first)
    assert (found.name, [row.label for row in found.partitions]) == ("gpt", LABELS)
    assert found.partitions[1].flags == 4
    with first.open("rb") as file:
        file.seek(PLACES["META"].start)
        assert parse_meta(file.read(MIB)) == {0x11: b"grub"}


def test_an_image_that_is_too_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, size in (("boot.img", 512), ("core.img", 1000), ("BOOTX64.EFI", 1), ("cmdline", 0)):
        (tmp_path / name).write_bytes(bytes(size))
    argv = [
        "--size",
        "100MiB",
        "--version",
        "v1",
        "--kernel",
        "k",
        "--initramfs",
        "i",
        "--boot",
        str(tmp_path),
    ]
    assert main([*argv, "--out", str(tmp_path / "out")]) == 1
    assert "--size: 104857600 bytes (whole MiB, at least 2104MiB)" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "size"), [("2200MiB", 2200 * MIB), ("3GiB", 3 * GIB), ("512", 512)])
def test_sizes(text: str, size: int) -> None:
    assert parse_image_size(text) == size


def test_no_size() -> None:
    with pytest.raises(UserError, match=r"--size: 'big' is no size"):
        parse_image_size("big")


class FileTarget(BlockTarget):
    """A disk that is a file: its partitions are loop devices, for the kernel of a test need not have GPT.

    It need not have vfat either, so what is copied to EFI goes to a folder.
    """

    def __init__(self, path: Path, sector_size: int, folder: Path) -> None:
        self._file, self._loops = path, dict[int, str]()
        # sfdisk takes a file's sectors for 512 bytes.
        disk = str(path) if sector_size == 512 else self._attach(0, "--sector-size", str(sector_size))
        super().__init__(disk, sector_size, run_here, KernelMounts(), folder=folder / "mounts")
        self._efi = folder / "efi"

    def partition(self, placed: Placed) -> str:
        if placed.number in self._loops:
            return self._loops[placed.number]
        place = ("--offset", str(placed.start), "--sizelimit", str(placed.area.size))
        return self._attach(placed.number, "--sector-size", str(self.sector_size), *place)

    def _attach(self, number: int, *options: str) -> str:
        done = run_command(["losetup", "--find", "--show", *options, str(self._file)])
        self._loops[number] = done.stdout.strip()
        return self._loops[number]

    @contextmanager
    def mount(self, placed: Placed, *, read_only: bool = False) -> Generator[Path]:
        if placed.area.filesystem == "vfat":
            self._efi.mkdir(exist_ok=True)
            yield self._efi
            return
        with super().mount(placed, read_only=read_only) as root:
            yield root

    def close(self) -> None:
        while self._loops:
            run_command(["losetup", "--detach", self._loops.popitem()[1]])


async def run_here(argv: Sequence[str], stdin: bytes) -> Finished:
    done = run_command([Path(argv[0]).name, *argv[1:]], input=stdin.decode(), check=False)
    return Finished(code=done.returncode, stdout=done.stdout.encode(), stderr=done.stderr.encode())


@pytest.fixture
def open_target(tmp_path: Path) -> Generator[Callable[[int], FileTarget]]:
    targets: list[FileTarget] = []

    def open_one(sector_size: int) -> FileTarget:
        path = tmp_path / "disk.img"
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(8 * GIB)
        targets.append(FileTarget(path, sector_size, tmp_path))
        return targets[-1]

    yield open_one
    for target in targets:
        target.close()


def make_job(target: FileTarget, folder: Path) -> Job:
    disk = describe_disk(dev_path=target.path, size=8 * GIB)
    plan = InstallPlan(disk=disk, request=make_request(path=target.path))
    return Job(plan=plan, system=GrubSystem(make_source(folder)), target=target, log=lambda _: None)


def read(target: FileTarget, offset: int, size: int) -> bytes:
    with Path(target.path).open("rb") as disk:
        disk.seek(offset)
        return disk.read(size)


@needs_tools
@pytest.mark.root
@pytest.mark.parametrize("sector_size", [512, 4096])
async def test_an_installation(
    open_target: Callable[[int], FileTarget], tmp_path: Path, sector_size: int
) -> None:
    target = open_target(sector_size)
    await run_install(make_job(target, tmp_path / "in"))
    found = probe(Path(target.path), sector_size=sector_size)
    assert (found.name, [row.label for row in found.partitions]) == ("gpt", LABELS)
    rows = [(row.start, row.size) for row in found.partitions]
    assert rows == [(placed.start, placed.area.size) for placed in PLACES.values()]
    boot = probe(Path(target.partition(PLACES[BOOT.label])))
    assert (boot.name, boot.label) == ("xfs", "BOOT")
    assert read(target, 0, 2) == (b"\xeb\x63" if sector_size == 512 else b"\0\0")
    assert read(target, PLACES[BIOS.label].start, 4) == (b"CCCC" if sector_size == 512 else bytes(4))


@needs_tools
@pytest.mark.root
@pytest.mark.parametrize("steps", range(1, len(STEPS)))
async def test_a_cut_and_another_try(
    open_target: Callable[[int], FileTarget], tmp_path: Path, steps: int
) -> None:
    target = open_target(512)
    await run_install(make_job(target, tmp_path / "first"), STEPS[:steps])
    meta = Path(target.partition(PLACES["META"]))
    assert probe(meta).name == ""
    await run_install(make_job(target, tmp_path / "second"))
    target.close()
    assert probe(Path(open_target(512).partition(PLACES["META"]))).name == "talosmeta"
