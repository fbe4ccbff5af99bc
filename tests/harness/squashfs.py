"""The smallest system images: squashfs 4.0 as ``fs/squashfs/squashfs_fs.h`` has it, nothing compressed."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

type Tree = Mapping[str, "bytes | Tree"]
"""Programs by their names, and folders."""

_SUPERBLOCK = struct.Struct("<5I6H8Q")
_MAGIC, _VERSION, _ZSTD = 0x73717368, (4, 0), 6
_BLOCK_LOG = 17
_FLAGS = 0x0001 | 0x0002 | 0x0010 | 0x0200 | 0x0800
"""Inodes, data and ids are not compressed; there are no fragments and no extended attributes."""
_FOLDER, _FILE = 1, 2
_NONE = 0xFFFFFFFFFFFFFFFF
_DATA_UNCOMPRESSED, _METADATA_UNCOMPRESSED = 1 << 24, 1 << 15
_PAGE = 4096


@dataclass(slots=True)
class _Writer:
    """The three parts as they grow; positions in ``data`` are those of the file."""

    data: bytearray = field(default_factory=lambda: bytearray(_SUPERBLOCK.size))
    inodes: bytearray = field(default_factory=bytearray)
    listings: bytearray = field(default_factory=bytearray)
    count: int = 0

    def add(self, content: "bytes | Tree") -> tuple[int, int, int]:
        """Add a file or a folder with all below it; the place of its inode, its number and type."""
        if isinstance(content, bytes):
            return self._add_file(content)
        entries = [(name, *self.add(content[name])) for name in sorted(content)]
        listing = bytearray()
        for name, place, number, kind in entries:
            listing += struct.pack("<3I", 0, 0, number)
            listing += struct.pack("<HhHH", place, 0, kind, len(name) - 1) + name.encode()
        start = len(self.listings)
        self.listings += listing
        links = 2 + sum(kind == _FOLDER for *_, kind in entries)
        # A listing counts "." and ".." as three bytes. No parent is looked for: nothing here is exported.
        return self._add_inode(_FOLDER, struct.pack("<2I2HI", 0, links, len(listing) + 3, start, 1))

    def _add_file(self, content: bytes) -> tuple[int, int, int]:
        start = len(self.data)
        self.data += content
        size = len(content)
        return self._add_inode(
            _FILE, struct.pack("<5I", start, 0xFFFFFFFF, 0, size, size | _DATA_UNCOMPRESSED)
        )

    def _add_inode(self, kind: int, rest: bytes) -> tuple[int, int, int]:
        place = len(self.inodes)
        self.count += 1
        self.inodes += struct.pack("<4H2I", kind, 0o755, 0, 0, 0, self.count) + rest
        return place, self.count, kind


def make_squashfs(tree: Tree) -> bytes:
    """An image with these files, each shorter than a block of 128 KiB, all root's and executable."""
    writer = _Writer()
    root, _, _ = writer.add(tree)
    out = writer.data
    places: list[int] = []
    for table in (writer.inodes, writer.listings, struct.pack("<I", 0)):
        places.append(len(out))
        out += struct.pack("<H", len(table) | _METADATA_UNCOMPRESSED) + table
    inodes, listings, ids = places
    index = len(out)
    out += struct.pack("<Q", ids)
    head = (_MAGIC, writer.count, 0, 1 << _BLOCK_LOG, 0, _ZSTD, _BLOCK_LOG, _FLAGS, 1, *_VERSION)
    tables = (root, len(out), index, _NONE, inodes, listings, _NONE, _NONE)
    out[: _SUPERBLOCK.size] = _SUPERBLOCK.pack(*head, *tables)
    return bytes(out) + bytes(-len(out) % _PAGE)
