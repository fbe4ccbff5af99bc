"""Caches of images on a machine's disks: on the medium that it was installed from, and on IMAGECACHE."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from talos.api.definitions import block_pb2
from talos.disks.disk import MEDIUM_FILESYSTEM, is_medium
from talos.images.cache.places import ISO, ISO_CACHE
from talos.system.errors import UserError
from talos.system.files import read_pieces, replace_durably
from talos.system.mounts import HARDENED, MountPoint, Mounts
from talos.system.sizes import format_size

RESERVE = 16 << 20
"""Bytes that a copy leaves free on the volume."""


def find_media(volumes: Iterable[block_pb2.DiscoveredVolumeSpec]) -> list[str]:
    """The devices of media with the installer."""
    return sorted(volume.dev_path for volume in volumes if is_medium(volume.name, volume.label))


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
        self._mounts.mount(
            MountPoint(source=device, target=str(ISO), type=MEDIUM_FILESYSTEM, options=options)
        )
        if not ISO_CACHE.is_dir():
            self._mounts.unmount(str(ISO))
            self._without.add(device)

    def copy(self, source: Path, target: Path, is_stopped: Callable[[], bool]) -> int:
        """Copy files that are not there in their size; how many that were. UserError, OSError.

        StoppedError: when ``is_stopped`` became true, which is looked at before each piece.
        """
        missing = [
            (path, copy)
            for path in list_files(source)
            if not is_copied(path, copy := target / path.relative_to(source))
        ]
        check_room(sum(path.stat().st_size for path, _ in missing), target)
        for path, copy in missing:
            copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            replace_durably(copy, _read(path, is_stopped))
        return len(missing)


class StoppedError(Exception):
    """A copy was stopped; the file that was being copied is not there."""


def list_files(folder: Path) -> Iterator[Path]:
    """The ordinary files below a folder, blobs before what names them: no copy has half an image."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from list_files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def is_copied(source: Path, target: Path) -> bool:
    """Whether a file of its size is there. OSError."""
    return target.is_file() and target.stat().st_size == source.stat().st_size


def check_room(size: int, target: Path) -> None:
    """UserError when a volume has no room for so many more bytes."""
    free = shutil.disk_usage(target).free
    if size + RESERVE > free:
        raise UserError(
            f"the images need {format_size(size + RESERVE)} more, of which {format_size(free)} are free",
            where="IMAGECACHE",
            hint="give the volume more room: VolumeConfig, provisioning.maxSize",
        )


def _read(path: Path, is_stopped: Callable[[], bool]) -> Iterator[bytes]:
    for piece in read_pieces(path):
        if is_stopped():
            raise StoppedError
        yield piece
