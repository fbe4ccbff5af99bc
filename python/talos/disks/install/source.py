"""What is installed: the very files that the running system was started from."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from talos.disks.install.boot_loader import DIRECTORY as BOOT_DIRECTORY
from talos.disks.install.boot_loader import BootImages, load_images
from talos.system.errors import UserError
from talos.upgrade.initramfs import (
    DIGEST,
    IMAGE,
    INIT,
    RELEASE,
    hash_file,
    read_initramfs,
    read_release,
)

DIRECTORY = Path("/usr/install")
"""Where early init shows the initramfs that it came from."""
KERNEL = "vmlinuz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A system to install. ``kernel`` is None where the boot loader kept it to itself."""

    directory: Path
    version: str
    boot: BootImages
    kernel: Path | None

    def read_initramfs(self) -> Iterator[bytes]:
        """The initramfs, in pieces."""
        yield from read_initramfs(self.directory / INIT, self.directory / IMAGE)
        yield from read_release(self.directory / RELEASE)

    def hash_initramfs(self) -> str:
        """Its SHA-256 digest in hexadecimal."""
        digest = hashlib.sha256()
        for piece in self.read_initramfs():
            digest.update(piece)
        return digest.hexdigest()

    def check(self) -> None:
        """Compare the system image with the digest that came with it. UserError when they differ."""
        wanted = (self.directory / DIGEST).read_text(encoding="ascii").strip()
        found = hash_file(self.directory / IMAGE)
        if found != wanted:
            raise UserError(
                f"has the digest {found}, expected {wanted}",
                where=str(self.directory / IMAGE),
                hint="boot from an undamaged medium",
            )


def load_source(version: str, directory: Path = DIRECTORY, boot: Path = BOOT_DIRECTORY) -> Source:
    """The system that runs; UserError when it was not started from an initramfs that is still there."""
    for name in (INIT, IMAGE, DIGEST):
        if not (directory / name).is_file():
            raise UserError(
                f"{directory / name} is missing", where="install", hint="boot from an ISO or by PXE"
            )
    kernel = directory / KERNEL
    return Source(
        directory=directory,
        version=version,
        boot=load_images(boot),
        kernel=kernel if kernel.is_file() else None,
    )
