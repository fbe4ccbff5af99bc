"""A disk that is installed to, through a port: the kernel's block device, or a file with folders in tests."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from talos.system.block import partitions
from talos.system.block.copies import read_copies
from talos.system.block.layout import Placed
from talos.system.block.partitions import Run, name_partition
from talos.system.block.wipe import drop_cache
from talos.system.mounts import HARDENED, MountPoint, Mounts

MOUNTS = Path("/system/run/installer")
"""Where partitions are mounted while they are written. Not accessible to other processes."""


class Target(Protocol):
    """A disk to install to."""

    @property
    def path(self) -> str:
        """The device."""
        ...

    @property
    def sector_size(self) -> int:
        """Bytes of a sector."""
        ...

    def open(self) -> BinaryIO:
        """The whole disk, for reading and writing."""
        ...

    async def write_table(self, text: str) -> None:
        """Replace the partition table; ``text`` is a script for sfdisk."""
        ...

    async def make_filesystem(self, placed: Placed) -> None:
        """Make the filesystem of a partition."""
        ...

    @contextmanager
    def mount(self, placed: Placed, *, read_only: bool = False) -> Generator[Path]:
        """Where a partition's files are. When it ends, everything is on the disk."""
        ...

    def read_copies(self, placed: Placed, file: Path) -> Sequence[bytes]:
        """A mounted partition's file as each readable half of a mirror has it; once from another disk."""
        ...


class BlockTarget:
    """A block device; programs run through ``run``."""

    def __init__(
        self, path: str, sector_size: int, run: Run, mounts: Mounts, *, folder: Path = MOUNTS
    ) -> None:
        self.path = path
        self.sector_size = sector_size
        self._run = run
        self._mounts = mounts
        self._folder = folder

    def open(self) -> BinaryIO:
        """The whole disk, for reading and writing."""
        return Path(self.path).open("r+b")

    def partition(self, placed: Placed) -> str:
        """The device of a partition."""
        return name_partition(self.path, placed.number)

    async def write_table(self, text: str) -> None:
        """Replace the partition table; ``text`` is a script for sfdisk."""
        await partitions.write_table(self._run, self.path, text)

    async def make_filesystem(self, placed: Placed) -> None:
        """Make the filesystem of a partition."""
        kind = "xfs" if placed.area.filesystem == "xfs" else "vfat"
        device = self.partition(placed)
        await partitions.make_filesystem(
            self._run, device, kind, placed.area.label, sector_size=self.sector_size
        )

    @contextmanager
    def mount(self, placed: Placed, *, read_only: bool = False) -> Generator[Path]:
        """Where a partition's files are. When it ends, everything is on the disk."""
        device = self.partition(placed)
        place = self._folder / placed.area.label
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _drop_cache(device)
        options = (*HARDENED, "ro") if read_only else HARDENED
        self._mounts.mount(
            MountPoint(source=device, target=str(place), type=placed.area.filesystem, options=options)
        )
        try:
            yield place
        finally:
            self._mounts.unmount(str(place))
            place.rmdir()

    def read_copies(self, placed: Placed, file: Path) -> Sequence[bytes]:
        """A mounted partition's file as each readable half of a mirror has it; once from another disk."""
        return read_copies(self.path, placed.start, file)


def _drop_cache(device: str) -> None:
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        drop_cache(descriptor)
    finally:
        os.close(descriptor)
