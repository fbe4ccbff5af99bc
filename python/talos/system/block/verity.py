"""The hash tree of an image, with which the kernel compares every block that it reads of it: dm-verity.

The form is that of ``veritysetup format``, version 1: a superblock, then the tree, its root first. Format:
``Documentation/admin-guide/device-mapper/verity.rst``, and cryptsetup's wiki, "DMVerity". Salt and UUID are
fixed, so that the tree of a release is the same on every machine that builds it.
"""

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

from talos.system.errors import UserError

TREE_SUFFIX = ".verity"
BLOCK = 4096
"""Bytes of a block, of images as of trees: a page of memory."""
SALT = hashlib.sha256(b"talos").digest()
UUID = bytes.fromhex("7a1055e0b0074c0f8f5ea7e21f5c0de5")
_ALGORITHM, _DIGEST = b"sha256", 32
_SUPERBLOCK = struct.Struct("<8sII16s32sIIQH6x256s168x")
"""Signature, version, kind of hash, UUID, algorithm; bytes of a block of the image and of the tree;
blocks of the image; bytes of the salt, salt."""


@dataclass(frozen=True, slots=True)
class HashTree:
    """``root`` is the root hash in hexadecimal, ``data`` what lies beside the image: 0.8 % of its size."""

    root: str
    data: bytes


def find_tree(image: Path) -> Path:
    """The place of an image's hash tree."""
    return image.with_suffix(TREE_SUFFIX)


def make_tree(image: Path) -> HashTree:
    """Hash an image. UserError when it has no whole blocks, of which the kernel would leave out the last."""
    levels: list[bytes] = []
    size = image.stat().st_size
    if not size or size % BLOCK:
        raise UserError(f"has {size} bytes, which are no whole blocks of {BLOCK}", where=str(image))
    hashes = bytearray()
    with image.open("rb") as file:
        while block := file.read(BLOCK):
            hashes += _hash(block)
    while len(hashes) > _DIGEST:
        level = bytes(hashes) + bytes(-len(hashes) % BLOCK)
        levels.append(level)
        hashes = bytearray().join(
            _hash(level[place : place + BLOCK]) for place in range(0, len(level), BLOCK)
        )
    superblock = _SUPERBLOCK.pack(
        b"verity\0\0", 1, 1, UUID, _ALGORITHM, BLOCK, BLOCK, size // BLOCK, len(SALT), SALT
    )
    return HashTree(root=hashes.hex(), data=superblock.ljust(BLOCK, b"\0") + b"".join(reversed(levels)))


def _hash(block: bytes) -> bytes:
    return hashlib.sha256(SALT + block).digest()
