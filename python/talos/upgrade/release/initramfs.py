"""The archive that the kernel unpacks: the early init, the system image, its hash tree and digests.

The build and the installer call the same functions, so a machine that was booted from anywhere writes
the very bytes of the release to its disk. Format: cpio "newc", ``Documentation/driver-api/early-userspace``.

More archives may follow, each with one folder: the extensions, then the release's identity. The kernel
unpacks one after the other. So the system image does not change with the commit that it was built from, nor
with the keys that it trusts.

One may come before: the processors' microcode, when an extension has some. The kernel reads it where it lies,
before anything is unpacked: ``Documentation/arch/x86/microcode.rst``.
"""

import stat
from collections.abc import Iterator
from pathlib import Path

from talos.system.block.verity import HashTree
from talos.system.files import hash_file, read_pieces

INIT = "init"
IMAGE = "rootfs.sqsh"
TREE = "rootfs.verity"
ROOT_HASH = "rootfs.roothash"
"""Of the system image's hash tree: with it the kernel compares what is read of the image."""
DIGEST = "rootfs.sqsh.sha256"
"""Of the whole image, for nodes that are containers."""
SHOWN = Path("/usr/install")
"""Where a node sees what it was started from, as early init unpacked it."""
EXTENSIONS = "extensions"
"""The extensions' images with their hash trees, and lists: of them, of root hashes, of digests."""
LAYERS = "extensions.yaml"
"""The layers of an image in their order, as upstream's images have it."""
ROOT_HASHES = "roothashes"
"""What early init has the kernel compare the layers with: of their hash trees, which lie beside them."""
DIGESTS = "sha256sums"
"""What nodes that are containers compare the layers with, as sha256sum writes it."""
RELEASE = "release"
"""The release's identity: ``os-release``, and ``keys/`` with the keys of releases that it accepts."""
KEY_SUFFIX = ".pub"
NEEDED = "signatures"
"""A file beside the keys: how many of them must have signed a release."""
MAX_KEYS = 16
MAX_KEY = 4096
"""Bytes of a file with a public key in PEM."""
FIRMWARE = Path("/usr/lib/firmware")
MICROCODE = {"intel-ucode": "GenuineIntel.bin", "amd-ucode": "AuthenticAMD.bin"}
"""Folders of firmware, and the names under which the kernel looks for what is in them."""
_MICROCODE_FOLDER = "kernel/x86/microcode"
_MICROCODE_ALIGNMENT = 16
"""Bytes. The processor reads it in place: volume 3A of Intel's manual, "Microcode Update Loader"."""
TRAILER = "TRAILER!!!"
"""The name of an archive's last member."""
MAGIC = b"070701"
HEADER = 110
"""Bytes before a member's name: the magic, and thirteen fields of eight hexadecimal digits."""


def read_initramfs(init: Path, image: Path, tree: HashTree) -> Iterator[bytes]:
    """The archive in pieces: the same ones for the same two files. ``tree`` is the image's."""
    yield from _add("dev", stat.S_IFDIR | 0o755, 0)
    yield from _add_file(INIT, 0o755, init)
    yield from _add_file(IMAGE, 0o444, image)
    yield from _add_content(TREE, tree.data)
    yield from _add_content(ROOT_HASH, f"{tree.root}\n".encode())
    yield from _add_content(DIGEST, f"{hash_file(image)}\n".encode())
    yield from _add(TRAILER, 0, 0)


def read_microcode(firmware: Path = FIRMWARE) -> Iterator[bytes]:
    """The archive that comes first, of the microcode in a folder of firmware; nothing when there is none."""
    found = {MICROCODE[name]: _list_microcode(firmware / name) for name in sorted(MICROCODE)}
    if not any(found.values()):
        return
    place = 0
    for parent in ("kernel", "kernel/x86", _MICROCODE_FOLDER):
        for piece in _add(parent, stat.S_IFDIR | 0o755, 0):
            place += len(piece)
            yield piece
    for name, paths in found.items():
        if paths:
            size = sum(path.stat().st_size for path in paths)
            inside = f"{_MICROCODE_FOLDER}/{name}"
            # Zeros after the name are a part of it that no reader sees.
            inside += "\0" * (-(place + HEADER + len(inside) + 1) % _MICROCODE_ALIGNMENT)
            for piece in _add(inside, stat.S_IFREG | 0o444, size):
                place += len(piece)
                yield piece
            for path in paths:
                yield from read_pieces(path)
            yield _padding(size)
            place += size + len(_padding(size))
    yield from _add(TRAILER, 0, 0)


def _list_microcode(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def read_folder(folder: Path, name: str) -> Iterator[bytes]:
    """An archive that follows, of one folder; nothing when there is no such folder."""
    if not folder.is_dir():
        return
    yield from _add(name, stat.S_IFDIR | 0o755, 0)
    for path in sorted(folder.rglob("*")):
        inside = f"{name}/{path.relative_to(folder)}"
        if path.is_dir():
            yield from _add(inside, stat.S_IFDIR | 0o755, 0)
        else:
            yield from _add_file(inside, 0o444, path)
    yield from _add(TRAILER, 0, 0)


def read_digests(text: str) -> dict[str, str]:
    """The digests of files by their names, from a text as sha256sum writes it."""
    lines = (line.split("  ", 1) for line in text.splitlines())
    return {name: digest for digest, name in lines}


def _add_file(name: str, mode: int, path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield from _add(name, stat.S_IFREG | mode, size)
    yield from read_pieces(path)
    yield _padding(size)


def _add_content(name: str, data: bytes) -> Iterator[bytes]:
    yield from _add(name, stat.S_IFREG | 0o444, len(data))
    yield data + _padding(len(data))


def _add(name: str, mode: int, size: int) -> Iterator[bytes]:
    """A member's header; owner root, no times."""
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (0, mode, 0, 0, links, 0, size, 0, 0, 0, 0, len(name) + 1, 0)
    header = MAGIC + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    yield header + _padding(len(header))


def _padding(size: int) -> bytes:
    return b"\0" * (-size % 4)
