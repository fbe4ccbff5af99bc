"""The first bytes of disks with a partition table."""

from uuid import UUID

from talos.system.block.layout import LINUX_TYPE

SYSTEM = ("EFI", "BIOS", "BOOT", "META")


def make_head(
    *labels: str,
    sector_size: int = 512,
    count: int = 128,
    mark: bytes = b"EFI PART",
    first: int = 40,
    sectors: int = 1,
) -> bytes:
    """A table with partitions of so many sectors, from the first on; an empty label leaves its row free."""
    header = mark + bytes(64) + _number(2, 8) + _number(count, 4) + _number(128, 4)
    rows = b""
    for index, label in enumerate(labels):
        start = first + index * sectors
        row = UUID(LINUX_TYPE).bytes_le + UUID(int=index + 1).bytes_le
        row += _number(start, 8) + _number(start + sectors - 1, 8) + bytes(8) + label.encode("utf-16-le")
        rows += row.ljust(128, b"\0") if label else bytes(128)
    return bytes(sector_size) + header.ljust(sector_size, b"\0") + rows.ljust(16384, b"\0")


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")
