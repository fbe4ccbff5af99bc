"""What is installed: a release, or the very files that the running system was started from."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from talos.system.block.verity import HashTree, find_tree, make_tree
from talos.system.errors import UserError
from talos.system.files import hash_file, read_pieces
from talos.upgrade.release.initramfs import (
    EXTENSIONS,
    FIRMWARE,
    IMAGE,
    INIT,
    RELEASE,
    ROOT_HASH,
    ROOT_HASHES,
    SHOWN,
    TREE,
    read_digests,
    read_folder,
    read_initramfs,
    read_microcode,
)
from talos.upgrade.slots.grub.loader import DIRECTORY as BOOT_DIRECTORY
from talos.upgrade.slots.grub.loader import BootImages, load_images

KERNEL = "vmlinuz"


class Source(Protocol):
    """A system to install. Digests are SHA-256 in hexadecimal; files are read in pieces."""

    @property
    def version(self) -> str:
        """The system's version."""
        ...

    @property
    def boot(self) -> BootImages:
        """The boot loader that starts it."""
        ...

    @property
    def has_kernel(self) -> bool:
        """Whether there is a kernel to read: a boot loader may have kept it to itself."""
        ...

    def read_kernel(self) -> Iterator[bytes]:
        """The kernel."""
        ...

    def hash_kernel(self) -> str:
        """Its digest."""
        ...

    def read_initramfs(self) -> Iterator[bytes]:
        """The initramfs."""
        ...

    def hash_initramfs(self) -> str:
        """Its digest."""
        ...

    def check(self) -> None:
        """Compare it with the hashes that came with it. UserError when they differ."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSystem:
    """The system that runs. ``directory`` shows its initramfs."""

    directory: Path
    version: str
    boot: BootImages
    firmware: Path = FIRMWARE

    @property
    def has_kernel(self) -> bool:
        """Whether the boot loader handed it over."""
        return (self.directory / KERNEL).is_file()

    def read_kernel(self) -> Iterator[bytes]:
        """The kernel."""
        yield from read_pieces(self.directory / KERNEL)

    def hash_kernel(self) -> str:
        """Its digest."""
        return hash_file(self.directory / KERNEL)

    def read_initramfs(self) -> Iterator[bytes]:
        """The very bytes of the release."""
        yield from read_microcode(self.firmware)
        tree = self._read_tree(IMAGE, self._read(ROOT_HASH))
        yield from read_initramfs(self.directory / INIT, self.directory / IMAGE, tree)
        for name in (EXTENSIONS, RELEASE):
            yield from read_folder(self.directory / name, name)

    def hash_initramfs(self) -> str:
        """Their digest."""
        digest = hashlib.sha256()
        for piece in self.read_initramfs():
            digest.update(piece)
        return digest.hexdigest()

    def check(self) -> None:
        """The images as a whole: of a system that runs, only what is read was compared."""
        roots = {IMAGE: self._read(ROOT_HASH)}
        if (self.directory / EXTENSIONS).is_dir():
            lines = read_digests(self._read(f"{EXTENSIONS}/{ROOT_HASHES}"))
            roots |= {f"{EXTENSIONS}/{name}": root for name, root in lines.items()}
        for name, root in roots.items():
            if make_tree(self.directory / name) != self._read_tree(name, root):
                raise UserError(
                    "does not match its root hash and hash tree",
                    where=str(self.directory / name),
                    hint="boot from an undamaged medium",
                )

    def _read(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="ascii").strip()

    def _read_tree(self, image: str, root: str) -> HashTree:
        return HashTree(root, find_tree(self.directory / image).read_bytes())


def load_source(
    version: str, directory: Path = SHOWN, boot: Path = BOOT_DIRECTORY, firmware: Path = FIRMWARE
) -> RunningSystem:
    """The system that runs; UserError when it was not started from an initramfs that is still there."""
    for name in (INIT, IMAGE, TREE, ROOT_HASH):
        if not (directory / name).is_file():
            raise UserError(
                f"{directory / name} is missing", where="install", hint="boot from an ISO or by PXE"
            )
    return RunningSystem(directory=directory, version=version, boot=load_images(boot), firmware=firmware)
