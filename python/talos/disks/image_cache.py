"""Caches of images on a machine's disks: on the medium that it was installed from, and on IMAGECACHE."""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from talos.api.definitions import block_pb2
from talos.disks.disk import MEDIUM_LABEL
from talos.images.cache.places import ISO, ISO_CACHE
from talos.system.errors import UserError
from talos.system.files import read_pieces, replace_durably
from talos.system.mounts import HARDENED, MountPoint, Mounts

FILESYSTEM = "iso9660"
RESERVE = 16 << 20
"""Bytes that a copy leaves free on the volume."""


def find_media(volumes: Iterable[block_pb2.DiscoveredVolumeSpec]) -> list[str]:
    """The devices of media with the installer."""
    return sorted(
        volume.dev_path
        for volume in volumes
        if volume.name == FILESYSTEM and volume.label.split("_")[0] == MEDIUM_LABEL
    )


class CacheDisks:
    """What PID 1 does with these disks."""

    def __init__(self, mounts: Mounts) -> None:
        self._mounts = mounts
        self._without: set[str] = set()

    def mount_medium(self, device: str) -> None:
        """Mount a medium that has a cache, read-only; one that has none stays free. OSError."""
        if device in self._without or any(mount.target == str(ISO) for mount in self._mounts.list()):
            return
        options = ("ro", *HARDENED)
        self._mounts.mount(MountPoint(source=device, target=str(ISO), type=FILESYSTEM, options=options))
        if not ISO_CACHE.is_dir():
            self._mounts.unmount(str(ISO))
            self._without.add(device)

    def copy(self, source: Path, target: Path) -> int:
        """Copy files that are not there in their size; how many that were. UserError, OSError."""
        copied = 0
        for path in list_files(source):
            copied += copy_file(path, target / path.relative_to(source))
        return copied


def list_files(folder: Path) -> Iterator[Path]:
    """The ordinary files below a folder, blobs before what names them: no copy has half an image."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from list_files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def copy_file(source: Path, target: Path) -> bool:
    """Copy a file as a whole, unless one of its size is there; whether it was copied. UserError, OSError."""
    size = source.stat().st_size
    if target.is_file() and target.stat().st_size == size:
        return False
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    free = shutil.disk_usage(target.parent).free
    if size + RESERVE > free:
        raise UserError(
            f"{source.name} has {size} bytes, of {free} that are free",
            where="IMAGECACHE",
            hint="give the volume more room: VolumeConfig, provisioning.maxSize",
        )
    replace_durably(target, read_pieces(source))
    return True
