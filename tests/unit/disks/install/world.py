"""Disks as udevd would describe them, and a disk made of a file and folders."""

import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from talos.api.definitions import block_pb2
from talos.disks.disk import Content, Disk
from talos.disks.install.grub import GrubSystem
from talos.disks.install.job import Job
from talos.disks.install.plan import InstallPlan
from talos.disks.install.request import InstallRequest
from talos.disks.install.source import RunningSystem, Source, load_source
from talos.system.block.layout import GIB, Placed, place_areas
from talos.system.block.verity import find_tree, make_tree
from talos.upgrade.slots.grub.loader import BootImages

BOOT = BootImages(boot=b"\xeb\x63" + b"B" * 510, core=b"C" * 100_000, efi=b"MZ", cmdline="pti=on")


def make_disk(id: str = "vda", *contents: Content, kind: str = "", **fields: object) -> Disk:
    spec = block_pb2.DiskSpec(size=10 * GIB, sector_size=512, dev_path=f"/dev/{id}")
    spec.MergeFrom(block_pb2.DiskSpec(**cast("Any", fields)))
    return Disk(id=id, spec=spec, kind=kind or ("gpt" if contents else ""), contents=contents)


def make_contents(*, meta: str = "") -> tuple[Content, ...]:
    """What an installation leaves, with this in META."""
    return tuple(
        Content(
            name=f"vda{placed.number}",
            label=placed.area.label,
            filesystem=meta if placed.area.label == "META" else placed.area.filesystem,
            offset=placed.start,
            size=placed.area.size,
        )
        for placed in place_areas()
    )


def make_request(
    *, wipe: bool = False, path: str = "/dev/vda", arguments: tuple[str, ...] = ()
) -> InstallRequest:
    return InstallRequest(
        where="machine.install.disk",
        wanted=path,
        path=path,
        wipe=wipe,
        wipe_option="machine.install.wipe",
        arguments=arguments,
    )


def write_image(path: Path, data: bytes) -> str:
    """Write an image and its hash tree; its root hash."""
    path.write_bytes(data)
    tree = make_tree(path)
    find_tree(path).write_bytes(tree.data)
    return tree.root


def make_source(folder: Path, *, kernel: bool = True, boot: BootImages = BOOT) -> RunningSystem:
    """A system of a few bytes, as early init shows it."""
    install, loader = folder / "install", folder / "boot"
    install.mkdir(parents=True)
    loader.mkdir()
    (install / "init").write_bytes(b"\x7fELF")
    (install / "rootfs.roothash").write_text(write_image(install / "rootfs.sqsh", b"hsqs" * 5120) + "\n")
    if kernel:
        (install / "vmlinuz").write_bytes(b"kernel" * 3000)
    for name, data in (("boot.img", boot.boot), ("core.img", boot.core), ("BOOTX64.EFI", boot.efi)):
        (loader / name).write_bytes(data)
    (loader / "cmdline").write_text(boot.cmdline + "\n", encoding="ascii")
    return load_source("v1.15.0", install, loader)


class FolderTarget:
    """The twin of a disk: a sparse file, its partitions' files in folders beside it."""

    def __init__(self, folder: Path, size: int, sector_size: int = 512) -> None:
        self.path = str(folder / "disk.img")
        self.sector_size = sector_size
        self.table = ""
        self._folder = folder
        self.mounted: list[str] = []
        self.others: list[bytes] = []
        self.has_copies = True
        folder.mkdir(parents=True, exist_ok=True)
        with Path(self.path).open("wb") as file:
            file.truncate(size)

    def open(self) -> BinaryIO:
        return Path(self.path).open("r+b")

    async def write_table(self, text: str) -> None:
        self.table = text

    async def make_filesystem(self, placed: Placed) -> None:
        root = self.root(placed.area.label)
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()

    @contextmanager
    def mount(self, placed: Placed, *, read_only: bool = False) -> Generator[Path]:
        self.mounted.append(f"{placed.area.label}{' ro' if read_only else ''}")
        yield self.root(placed.area.label)

    def read_copies(self, placed: Placed, file: Path) -> Sequence[bytes]:
        """As the file is, and as other halves of a mirror have it; none if those can't be read."""
        return [file.read_bytes(), *self.others] if self.has_copies else []

    def root(self, label: str) -> Path:
        return self._folder / label

    def read(self, offset: int, size: int) -> bytes:
        with Path(self.path).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def discover(self) -> Disk:
        """The disk as it would be found by the next boot."""
        meta = next(placed for placed in place_areas() if placed.area.label == "META")
        is_marked = self.read(meta.start, 4) == b"\x5a\x4b\x3c\x2d"
        if not self.table:
            return make_disk(size=10 * GIB)
        return make_disk("vda", *make_contents(meta="talosmeta" if is_marked else ""), size=10 * GIB)


def make_job(
    target: FolderTarget,
    source: Source,
    disk: Disk,
    request: InstallRequest,
    log: Callable[[str], None] = lambda _: None,
) -> Job:
    plan = InstallPlan(disk=disk, request=request)
    return Job(plan=plan, system=GrubSystem(source), target=target, log=log, meta={10: b"network"})
