"""Check of the metadata of a mounted XFS by the kernel, as ``xfs_scrub`` has it done.

Debian's program is not in the image: it brings 38 MB of ICU with it, for the names of files. Ioctls,
structures and kinds of metadata are those of fs/xfs/libxfs/xfs_fs.h. What takes the whole filesystem in
one call, which nothing can end, is left out: the counts of links and of quotas.
"""

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field

from talos.system import kernel

MAX_FINDINGS = 8
"""Findings that are named; of more there is the number."""

_GEOMETRY, _BULKSTAT, _INUMBERS, _SCRUB = 0x8100587E, 0x8040587F, 0x80405880, 0xC040583C
_GEOMETRY_BYTES, _GROUP_COUNT = 256, struct.Struct("12xI")
_BULK = struct.Struct("QIIII40x")
"""Where to begin, flags, inodes wanted, inodes returned, an allocation group."""
_INODE = struct.Struct("Q56xI64xH58x")
"""Number, generation, mode."""
_INODES = 64
_CHUNK = struct.Struct("QQ8x")
"""Number of the first of 64 inodes, a bit for each that is in use."""
_METADATA = struct.Struct("IIQII40x")
"""Kind, flags, inode, its generation, allocation group."""
_DAMAGED = 1 << 1 | 1 << 4
"""Wrong by itself, or as compared with other metadata."""
_SKIPPED = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.EBUSY})
"""There is no such metadata here, the kernel can't check it, or not now."""

_UNREADABLE = frozenset({errno.EUCLEAN, errno.EBADMSG})

_PROBE = 0
_OF_GROUP = {
    1: "superblock",
    2: "free space header",
    3: "free list",
    4: "inode header",
    5: "free space by block",
    6: "free space by length",
    7: "inodes",
    8: "free inodes",
    9: "reverse mappings",
    10: "reference counts",
}
_OF_INODE = {
    11: "inode",
    12: "data",
    13: "attributes",
    14: "copy on write",
    16: "attribute names",
    18: "parents",
}
_OF_DIRECTORY, _OF_LINK = {15: "directory"}, {17: "link"}
_OF_ALL = {
    19: "realtime bitmap",
    20: "realtime summary",
    21: "users' quotas",
    22: "groups' quotas",
    23: "projects' quotas",
    24: "counters",
}


@dataclass(slots=True)
class Findings:
    """What is damaged: the first few by name, and how many."""

    named: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, what: str) -> None:
        """Count one."""
        self.count += 1
        if self.count <= MAX_FINDINGS:
            self.named.append(what)

    def __str__(self) -> str:
        more = self.count - len(self.named)
        return "; ".join([*self.named, *([f"and {more} more"] if more else [])])


def scrub_filesystem(target: str, check_stopped: Callable[[], None]) -> Findings:
    """Check everything, with idle priority for the disk. ``check_stopped`` raises to end it early.

    OSError when nothing is mounted there, it is no XFS or the kernel has no scrubber (ENOTTY, EOPNOTSUPP), or
    the disk fails.
    """
    if not os.path.ismount(target):
        raise OSError(errno.EINVAL, "nothing is mounted there", target)
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    findings = Findings()
    try:
        with kernel.idle_io():
            _check(descriptor, _PROBE)
            for group in range(_count_groups(descriptor)):
                check_stopped()
                for place in _find_damage(descriptor, _OF_GROUP, group=group):
                    findings.add(f"allocation group {group}: {place}")
            for number, generation, mode in _list_inodes(descriptor):
                check_stopped()
                for place in _find_inode_damage(descriptor, number, generation, mode):
                    findings.add(f"inode {number}: {place}")
            for place in _find_damage(descriptor, _OF_ALL):
                findings.add(place)
    finally:
        os.close(descriptor)
    return findings


def _find_inode_damage(descriptor: int, number: int, generation: int, mode: int) -> Iterable[str]:
    if not mode:
        return ["can't be read"]
    more = _OF_DIRECTORY if stat.S_ISDIR(mode) else _OF_LINK if stat.S_ISLNK(mode) else {}
    return _find_damage(descriptor, {**_OF_INODE, **more}, inode=number, generation=generation)


def _count_groups(descriptor: int) -> int:
    (count,) = _GROUP_COUNT.unpack_from(fcntl.ioctl(descriptor, _GEOMETRY, bytes(_GEOMETRY_BYTES)))
    return int(count)


def _list_inodes(descriptor: int) -> Generator[tuple[int, int, int]]:
    """Number, generation and mode of all inodes, a few at a time; the mode is 0 of one that can't be read."""
    buffer = bytearray(_BULK.size + _INODES * _INODE.size)
    start = 0
    while True:
        _BULK.pack_into(buffer, 0, start, 0, _INODES, 0, 0)
        try:
            fcntl.ioctl(descriptor, _BULKSTAT, buffer)
        except OSError as error:  # of the first of them: others before it would have been returned
            number = _find_inode(descriptor, start) if error.errno in _UNREADABLE else None
            if number is None:
                raise
            yield number, 0, 0
            start = number + 1
            continue
        start, _, _, found, _ = _BULK.unpack_from(buffer)
        if not found:
            return
        for index in range(found):
            yield _INODE.unpack_from(buffer, _BULK.size + index * _INODE.size)


def _find_inode(descriptor: int, start: int) -> int | None:
    """The first inode in use from a number on, by the trees alone."""
    buffer = bytearray(_BULK.size + 2 * _CHUNK.size)
    _BULK.pack_into(buffer, 0, start, 0, 2, 0, 0)
    fcntl.ioctl(descriptor, _INUMBERS, buffer)
    found = _BULK.unpack_from(buffer)[3]
    chunks = [_CHUNK.unpack_from(buffer, _BULK.size + index * _CHUNK.size) for index in range(found)]
    inodes = (first + bit for first, mask in chunks for bit in range(_INODES) if mask >> bit & 1)
    return next((number for number in inodes if number >= start), None)


def _find_damage(
    descriptor: int, kinds: Mapping[int, str], *, inode: int = 0, generation: int = 0, group: int = 0
) -> Generator[str]:
    for kind, name in kinds.items():
        try:
            flags = _check(descriptor, kind, inode=inode, generation=generation, group=group)
        except OSError as error:
            if error.errno not in _SKIPPED:
                raise
            continue
        if flags & _DAMAGED:
            yield name


def _check(descriptor: int, kind: int, *, inode: int = 0, generation: int = 0, group: int = 0) -> int:
    """The flags of one check."""
    request = _METADATA.pack(kind, 0, inode, generation, group)
    return int(_METADATA.unpack(fcntl.ioctl(descriptor, _SCRUB, request))[1])
