"""Damage to the system image within an initramfs, in a place that every boot reads."""

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


def flip_bit(initramfs: bytes) -> bytes:
    """A copy with one other bit there."""
    data = bytearray(initramfs)
    data[find_root(initramfs)] ^= 1
    return bytes(data)
