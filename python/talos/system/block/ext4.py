"""ext4: made, checked and repaired by e2fsprogs, grown by the kernel while it is mounted.

``mke2fs`` writes into the first 1 MiB before it writes the superblock. So that a device on which a power cut
has ended it isn't taken for one that holds something of others, the first sector has a mark until all is on
the disk. ``mke2fs`` zeroes that sector, unless it has the magic of a BSD disk's label (``zap_sector`` in its
``mke2fs.c``), and a discard zeroes it, too: the mark has that magic, and the discard is done here.
"""

import fcntl
import os
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import trio

from talos.system.block.partitions import Run
from talos.system.block.wipe import EDGE, discard
from talos.system.errors import UserError
from talos.system.process import Finished, find_line

MKE2FS = "/usr/sbin/mke2fs"
E2FSCK = "/usr/sbin/e2fsck"
SECTOR = 512
MARK = b"talos: ext4 is being made".ljust(64, b"\0") + b"\x57\x45\x56\x82".ljust(SECTOR - 64, b"\0")
"""The first sector of a device until its ext4 is complete; a program that reads it finds no partitions."""
_MAGIC, _MAGIC_OFFSET = b"\x53\xef", 1024 + 0x38
"""Of a superblock, also of one that libblkid refuses because its checksum is wrong."""
_CORRECTED = 1 | 2
"""Bits of e2fsck's exit code: errors were corrected, and a restart is due, which is for the root only."""
_UNCORRECTED, _UNREADABLE = 4, 8
"""Bits of the same: what it may not decide by itself; the first superblock can't be used, or the disk."""
_EXT4_IOC_RESIZE_FS = 0x40086610
"""``_IOW('f', 16, __u64)``, fs/ext4/ext4.h: the number of blocks that the filesystem is to have."""


def has_superblock(head: bytes) -> bool:
    """Whether a device that begins with these bytes has an ext4, be it a broken one."""
    return head[_MAGIC_OFFSET:].startswith(_MAGIC)


async def make_ext4(run: Run, device: str, label: str) -> None:
    """Make a filesystem, whatever was there before, on the disk itself at the end; UserError, OSError."""
    await trio.to_thread.run_sync(_begin, device)
    named = ["-L", label] if label else []
    argv = [MKE2FS, "-t", "ext4", "-q", "-F", "-E", "nodiscard", *named, device]
    done = await run(argv, b"")
    if done.code:
        raise _make_error(argv, done, device, 0)
    await trio.to_thread.run_sync(_end, device)


async def check_ext4(run: Run, device: str) -> bool:
    """Replay the journal, and repair what the kernel has recorded as broken; False when that takes decisions.

    A filesystem that was unmounted in order is not read. What isn't readable as one is up to the mount.
    """
    done = await run([E2FSCK, "-p", device], b"")
    return not done.code & _UNCORRECTED


async def repair_ext4(run: Run, device: str, *, force: bool) -> bool:
    """Check all of a filesystem that is not mounted; False when its repair takes decisions.

    ``force`` takes them, and the copies of a superblock: what belongs nowhere is in ``lost+found`` then.
    """
    argv = [E2FSCK, "-f", "-y" if force else "-p", device]
    done = await run(argv, b"")
    if not force and done.code & (_UNCORRECTED | _UNREADABLE):
        return False
    if done.code & ~_CORRECTED:
        raise _make_error(argv, done, device, -1)
    return True


def grow_ext4(device: str, target: str) -> None:
    """Let a mounted filesystem take all of its device. UserError when the kernel refuses."""
    with _open(device, os.O_RDONLY) as disk, _open(target, os.O_RDONLY | os.O_DIRECTORY) as folder:
        blocks = os.lseek(disk, 0, os.SEEK_END) // os.fstatvfs(folder).f_bsize
        try:
            fcntl.ioctl(folder, _EXT4_IOC_RESIZE_FS, struct.pack("Q", blocks))
        except OSError as error:
            raise UserError(f"ext4 can't be grown: {error.strerror}", where=target) from None


def _begin(device: str) -> None:
    with _open(device, os.O_RDWR | os.O_EXCL) as disk:
        os.pwrite(disk, MARK, 0)
        os.fsync(disk)
        size = os.lseek(disk, 0, os.SEEK_END)
        discard(disk, EDGE, max(size - EDGE, 0))


def _end(device: str) -> None:
    with _open(device, os.O_RDWR) as disk:
        os.fsync(disk)
        os.pwrite(disk, bytes(SECTOR), 0)
        os.fsync(disk)


@contextmanager
def _open(path: str, flags: int) -> Generator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _make_error(argv: Sequence[str], done: Finished, where: str, line: int) -> UserError:
    program = argv[0].rpartition("/")[2]
    return UserError(f"{program} ended with {done.code}: {find_line(done, line)}", where=where)
