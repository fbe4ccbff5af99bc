"""Superblocks with values that no tool writes."""

import struct
from pathlib import Path

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.system.block.blkid import MAX_SIZE, probe


def test_a_filesystem_of_more_bytes_than_there_are_numbers_for(tmp_path: Path) -> None:
    superblock = bytearray(1024)
    struct.pack_into("<I", superblock, 0x04, 0xFFFFFFFF)  # blocks, the lower half
    struct.pack_into("<I", superblock, 0x18, 21)  # the size of a block: 2 GiB
    struct.pack_into("<H", superblock, 0x38, 0xEF53)
    struct.pack_into("<I", superblock, 0x4C, 1)
    struct.pack_into("<I", superblock, 0x60, 0x40 | 0x80)  # extents, 64 bits
    struct.pack_into("<I", superblock, 0x150, 0xFFFFFFFF)
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(1024) + superblock + bytes(1 << 20))
    found = probe(disk)
    assert (found.name, found.filesystem_size) == ("ext4", MAX_SIZE)
    assert DiscoveredVolumeSpec(probed_size=found.filesystem_size, block_size=found.block_size)
