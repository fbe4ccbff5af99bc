"""The root of a program that runs in the node's own mount namespace, with programs of an image in ``/nix``.

It is the node's root with a layer above it that can be written to. What the node has mounted at
:data:`SHARED` is there, too: what the program mounts or unmounts below these, it does for the node.
"""

import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from io import FileIO
from pathlib import Path

from talos.system import kernel
from talos.system.errors import UserError
from talos.system.folders import opening_folder

BASE = Path("/run/debug")
"""A folder for each root, in memory: a pod that may write to the disk can't move its mounts away."""
LAYERS = Path("/var/system/debug")
"""What is written to each root, on the disk; where upstream has it."""
SHARED = ("dev", "proc", "sys", "run", "system", "var")
PROGRAMS = "nix"
_OVERLAY = kernel.MS_NOSUID | kernel.MS_NODEV
_building = threading.Lock()
"""Until its mounts can't be bound, a root would appear within another one that is built meanwhile."""


def find_root(name: str) -> Path:
    """Where a root is mounted."""
    return BASE / name / "root"


def build_root(name: str, image: Iterable[str], files: Mapping[str, bytes]) -> None:
    """Mount a root; :func:`remove_root` undoes that, also when this fails. OSError, UserError.

    ``image`` are the options of the overlay that the image is; ``files`` lie in the layer above the node's
    root, by their paths from there.
    """
    base, root = BASE / name, find_root(name)
    with _building, opening_folder(LAYERS, 0o700) as layers:
        base.mkdir(mode=0o700, parents=True)
        options = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("tmpfs", str(base), "tmpfs", options, "mode=0700,size=64k")
        # What is mounted below it appears in no other namespace, nor where /run is bound.
        kernel.mount("none", str(base), flags=kernel.MS_UNBINDABLE)
        root.mkdir()
        (base / "image").mkdir()
        kernel.mount_read_only(str(base / "image"), "overlay", _split_layers(image))
        programs = base / "image" / PROGRAMS
        if programs.is_symlink() or not programs.is_dir():
            raise UserError(f"the image has no folder /{PROGRAMS}, which its programs are run from")
        with opening_folder(Path(name), 0o700, within=layers) as layer:
            _fill_layer(layer, files)
            _mount_overlay("/", root, layer, "root")
            _mount_overlay(str(programs), root / PROGRAMS, layer, PROGRAMS)
        for folder in SHARED:
            kernel.mount(f"/{folder}", str(root / folder), flags=kernel.MS_BIND | kernel.MS_REC)


def remove_root(name: str) -> None:
    """Unmount a root and remove what was written to it, as far as it is there. OSError.

    What was mounted in it for the node stays there.
    """
    base = BASE / name
    if not base.is_dir():  # the disk could not be written to
        return
    if base.is_mount():
        # Else the node's own mounts, which are the same ones, would be unmounted with it.
        kernel.mount("none", str(base), flags=kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.umount(str(base), kernel.UMOUNT_NOFOLLOW | kernel.MNT_DETACH)
    base.rmdir()
    with opening_folder(LAYERS, 0o700) as layers, suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=layers)


def remove_left_layers(running: AbstractSet[str]) -> None:
    """Remove what was written to roots before a loss of power ended their boot, as far as that goes."""
    with suppress(OSError):  # there is no disk
        if LAYERS.is_dir():
            with opening_folder(LAYERS, 0o700) as layers:
                for left in set(os.listdir(layers)) - running:  # noqa: PTH208 - by its descriptor
                    shutil.rmtree(left, ignore_errors=True, dir_fd=layers)


def _split_layers(options: Iterable[str]) -> Iterator[tuple[str, str]]:
    for option in options:
        key, _, value = option.partition("=")
        if key == "lowerdir":
            yield from (("lowerdir+", folder) for folder in value.split(":"))
        elif value:
            yield key, value


def _fill_layer(layer: int, files: Mapping[str, bytes]) -> None:
    """The folders of both overlays in that of the disk, empty but for ``files``."""
    for folder in ("root", "root-work", PROGRAMS, f"{PROGRAMS}-work"):
        os.mkdir(folder, 0o755, dir_fd=layer)
    with opening_folder(Path("root"), within=layer) as upper:
        os.mkdir(PROGRAMS, 0o755, dir_fd=upper)
        os.mkdir("root", 0o700, dir_fd=upper)
        for path, content in files.items():
            with opening_folder(Path(path).parent, 0o755, within=upper) as place:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with FileIO(os.open(Path(path).name, flags, 0o644, dir_fd=place), "w") as file:
                    file.write(content)


def _mount_overlay(lower: str, target: Path, layer: int, folder: str) -> None:
    place = f"/proc/self/fd/{layer}/{folder}"
    data = f"lowerdir={lower},upperdir={place},workdir={place}-work"
    kernel.mount("overlay", str(target), "overlay", _OVERLAY, data)
