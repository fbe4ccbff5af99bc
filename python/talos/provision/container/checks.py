"""Whether this machine can run nodes as containers."""

import os
import shutil
from pathlib import Path

from talos.images.cache.layout import MANIFESTS
from talos.provision.cluster import ClusterRequest
from talos.provision.host.checks import tool_path
from talos.system.errors import UserError

# The first four bytes of a squashfs image, "hsqs".
SQUASHFS_MAGIC = b"hsqs"
# What the host needs beside the kernel, and the Debian package that has it.
TOOLS = {"mkfs.xfs": "xfsprogs"}


def check_machine(request: ClusterRequest) -> None:
    """All checks; each failure names the remedy."""
    check_tools()
    check_kernel()
    check_image(request.image)
    if request.image_cache is not None:
        check_cache(request.image_cache)


def check_tools() -> None:
    """The programs we run."""
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=tool_path()) is None:
            raise UserError(f"{tool} is missing", where="this machine", hint=f"apt-get install {package}")


def check_kernel() -> None:
    """File systems and devices of the running kernel."""
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    for name in ("squashfs", "xfs"):
        if name not in known and not _has_module(name):
            raise UserError(
                f"the kernel has no {name}", where="this machine", hint=f"load it: modprobe {name}"
            )
    if not Path("/dev/loop-control").exists():
        raise UserError(
            "the kernel has no loop devices", where="/dev/loop-control", hint="load them: modprobe loop"
        )


def _has_module(name: str) -> bool:
    # mount(2) loads a file system's module by itself.
    modules = Path("/lib/modules", os.uname().release, "modules.dep")
    return modules.is_file() and f"/{name}.ko" in modules.read_text(encoding="utf-8")


def check_cache(folder: Path) -> None:
    """The cache of images."""
    if not (folder / MANIFESTS).is_dir():
        hint = "make one: talosctl image cache-create --layout=flat"
        raise UserError("this is no cache of images in the flat layout", where=str(folder), hint=hint)


def check_image(image: Path) -> None:
    """The squashfs."""
    try:
        with image.open("rb") as file:
            magic = file.read(len(SQUASHFS_MAGIC))
    except OSError as error:
        raise UserError(
            f"the image can't be read: {error.strerror}",
            where=str(image),
            hint="build it: make build, which makes build/image.squashfs",
        ) from None
    if magic != SQUASHFS_MAGIC:
        raise UserError(
            f"this is no squashfs image: it begins with {magic!r}",
            where=str(image),
            hint="build it: make build, which makes build/image.squashfs",
        )
