"""Damage to images of squashfs within an initramfs."""

import struct

NAME, MAGIC = b"rootfs.sqsh\0", b"hsqs"
_ROOT_INODE, _INODE_TABLE = 32, 64
"""Offsets in the superblock of squashfs: the place of the root's inode within the table, and of the table."""


def find_root(initramfs: bytes) -> int:
    """Where in an initramfs its system image describes the folder ``/``."""
    start = initramfs.index(MAGIC, initramfs.index(NAME))
    (inode,) = struct.unpack_from("<Q", initramfs, start + _ROOT_INODE)
    (table,) = struct.unpack_from("<Q", initramfs, start + _INODE_TABLE)
    return start + table + (inode >> 16)


def flip_unread_bit(extensions: bytes) -> bytes:
    """A copy of an archive with another bit amid the files of its first image, unread unless one is used."""
    data = bytearray(extensions)
    start = data.index(MAGIC)
    (table,) = struct.unpack_from("<Q", data, start + _INODE_TABLE)  # behind all files
    data[start + table // 2] ^= 1
    return bytes(data)


def flip_bit(initramfs: bytes) -> bytes:
    """A copy with one other bit where the system image describes its root, which every boot reads."""
    data = bytearray(initramfs)
    data[find_root(initramfs)] ^= 1
    return bytes(data)
