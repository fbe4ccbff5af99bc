"""The medium that a UKI was started from: an EFI system partition, or an ISO, which has one as a file."""

from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.disks.disk import MEDIUM_FILESYSTEM
from talos.disks.image_cache import find_media
from talos.system.block.loop import LoopDevice
from talos.system.block.target import MOUNTS
from talos.system.errors import UserError
from talos.system.mounts import HARDENED, MountPoint, Mounts
from talos.upgrade.slots.systemd_boot.entry import ISO_VOLUME

HINT = "leave the medium in the machine until it is installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """A device with the partition's file system, or with the ISO."""

    device: str
    is_iso: bool = False


def find_medium(volumes: Iterable[DiscoveredVolumeSpec], partition: str) -> Medium:
    """The medium whose EFI partition has this id; UserError when there is none.

    Firmware names no partition for what it starts from an optical drive, and an ISO that was copied to a
    disk has a table that is not read, as the whole disk has a file system.
    """
    there = list(volumes)
    for volume in there:
        if partition and volume.partition_uuid.lower() == partition.lower():
            return Medium(device=volume.dev_path)
    for device in find_media(there):
        return Medium(device=device, is_iso=True)
    raise UserError(
        "the medium that this system was started from is not there",
        where=f"install: partition {partition}" if partition else "install",
        hint=HINT,
    )


@contextmanager
def open_medium(mounts: Mounts, medium: Medium, folder: Path = MOUNTS) -> Generator[Path]:
    """Where the files of its EFI partition are, below a folder. Blocks; UserError, OSError."""
    with ExitStack() as stack:
        device = medium.device
        if medium.is_iso:
            root = stack.enter_context(_mount(mounts, device, folder / "iso", MEDIUM_FILESYSTEM))
            if not (root / ISO_VOLUME).is_file():
                raise UserError(f"has no {ISO_VOLUME}", where=device, hint=HINT)
            loop = LoopDevice(root / ISO_VOLUME, read_only=True)
            stack.callback(loop.close)
            device = str(loop.path)
        yield stack.enter_context(_mount(mounts, device, folder / "medium", "vfat"))


@contextmanager
def _mount(mounts: Mounts, device: str, folder: Path, filesystem: str) -> Generator[Path]:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    point = MountPoint(source=device, target=str(folder), type=filesystem, options=(*HARDENED, "ro"))
    mounts.mount(point)
    try:
        yield folder
    finally:
        mounts.unmount(str(folder))
        folder.rmdir()
