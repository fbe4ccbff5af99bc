"""Swap: its header, and its use by the kernel. Format: ``union swap_header`` in include/linux/swap.h."""

import mmap
import os
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from talos.system import kernel
from talos.system.errors import UserError
from talos.system.sizes import format_size

MIN_PAGES = 10
"""As mkswap's: the kernel takes less, which is of no use."""
_SIGNATURE = b"SWAPSPACE2"
_HEADER = struct.Struct("<III16s16x")
"""After room for a boot loader: version, last page, number of bad pages, UUID, an empty label."""
_HEADER_AT = 1024
_DISCARD, _DISCARD_ONCE = 0x10000, 0x20000
"""Flags of swapon(2): the whole device is discarded once, when swapping to it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """A line of /proc/swaps. Bytes."""

    device: str
    type: str
    size: int
    used: int
    priority: int


def make_header(size: int) -> bytes:
    """The first page of a swap device of so many bytes; UserError when that is too small."""
    pages = size // mmap.PAGESIZE
    if pages < MIN_PAGES:
        raise UserError(f"{format_size(size)} are too small for swap", hint=f"at least {MIN_PAGES} pages")
    page = bytearray(mmap.PAGESIZE)
    _HEADER.pack_into(page, _HEADER_AT, 1, min(pages - 1, 0xFFFF_FFFF), 0, uuid.uuid4().bytes)
    page[-len(_SIGNATURE) :] = _SIGNATURE
    return bytes(page)


def make_swap(device: str) -> None:
    """Make a device swap, on the disk itself when this returns; OSError, UserError when it is too small."""
    descriptor = os.open(device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    try:
        header = make_header(os.lseek(descriptor, 0, os.SEEK_END))
        os.pwrite(descriptor, header, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def start_swap(device: str) -> None:
    """Let the kernel swap to a device; OSError."""
    kernel.swapon(device, _DISCARD | _DISCARD_ONCE)


def end_swap(device: str) -> None:
    """Take everything back from a device; OSError when there is no room for it in memory."""
    kernel.swapoff(device)


def parse_swaps(text: str) -> Iterator[Swap]:
    """The rows of /proc/swaps, but for files whose names hold blanks."""
    for line in text.split("\n")[1:]:
        words = line.split()
        if len(words) == 5:
            device, kind, size, used, priority = words
            yield Swap(
                device=device, type=kind, size=int(size) << 10, used=int(used) << 10, priority=int(priority)
            )
