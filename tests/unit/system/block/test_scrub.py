"""The kernel's scrubber, played here: few kernels have it."""

import errno
import fcntl
import os
import stat
import struct
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import pytest

from talos.system.block.scrub import scrub_filesystem

GEOMETRY, BULKSTAT, INUMBERS, SCRUB = 0x8100587E, 0x8040587F, 0x80405880, 0xC040583C
CORRUPT, PREEN, XCORRUPT = 2, 4, 16


INODES = [(128, stat.S_IFDIR), (131, stat.S_IFREG), (132, stat.S_IFLNK)]


@dataclass
class Kernel:
    """Two allocation groups, three inodes. ``flags`` by kind and by inode or group; an errno is negative."""

    flags: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    unreadable: set[int] = field(default_factory=set[int])
    requests: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def ioctl(self, _descriptor: int, request: int, data: bytes | bytearray) -> bytes:
        if request == GEOMETRY:
            return struct.pack("IIII", 4096, 1, 100, 2).ljust(256, b"\0")
        if request == BULKSTAT:
            assert isinstance(data, bytearray)
            (start,) = struct.unpack_from("Q", data)
            found = [one for one in INODES if one[0] >= start]
            if found and found[0][0] in self.unreadable:
                raise OSError(errno.EUCLEAN, "Structure needs cleaning")
            found = list(takewhile(lambda one: one[0] not in self.unreadable, found))
            struct.pack_into("QIII", data, 0, found[-1][0] + 1 if found else start, 0, 64, len(found))
            for index, (number, mode) in enumerate(found):
                struct.pack_into("Q56xI64xH", data, 64 + 192 * index, number, 7, mode)
            return b""
        if request == INUMBERS:
            assert isinstance(data, bytearray)
            struct.pack_into("QIII", data, 0, 192, 0, 2, 1)
            struct.pack_into("QQ", data, 64, 128, sum(1 << number - 128 for number, _ in INODES))
            return b""
        assert request == SCRUB
        kind, _, inode, generation, group = struct.unpack_from("IIQII", data)
        self.requests.append((kind, inode, generation))
        flags = self.flags.get((kind, inode or group), 0)
        if flags < 0:
            raise OSError(-flags, os.strerror(-flags))
        return struct.pack("IIQII", kind, flags, inode, generation, group).ljust(64, b"\0")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    monkeypatch.setattr(fcntl, "ioctl", found.ioctl)
    monkeypatch.setattr("os.path.ismount", os.path.exists)
    return found


def test_everything_is_checked_once(kernel: Kernel, tmp_path: Path) -> None:
    stops: list[None] = []
    findings = scrub_filesystem(str(tmp_path), lambda: stops.append(None))
    assert (findings.count, str(findings)) == (0, "")
    kinds = {
        inode: [kind for kind, number, _ in kernel.requests if number == inode] for inode in (128, 131, 132)
    }
    own = [11, 12, 13, 14, 16, 18]
    assert kinds == {128: [*own, 15], 131: own, 132: [*own, 17]}
    assert {generation for _, inode, generation in kernel.requests if inode} == {7}
    groups = [kind for kind, inode, _ in kernel.requests if not inode]
    assert groups == [0, *range(1, 11), *range(1, 11), *range(19, 25)]
    assert len(stops) == 5, "it can be ended at every group and inode"


def test_what_is_damaged_is_named(kernel: Kernel, tmp_path: Path) -> None:
    kernel.flags = {
        (2, 1): CORRUPT,
        (15, 128): XCORRUPT | PREEN,
        (11, 131): PREEN,
        (14, 131): -errno.ENOENT,
        (18, 132): -errno.EOPNOTSUPP,
    }
    findings = scrub_filesystem(str(tmp_path), lambda: None)
    assert str(findings) == "allocation group 1: free space header; inode 128: directory"


def test_an_inode_that_can_not_be_read_is_named_and_passed(kernel: Kernel, tmp_path: Path) -> None:
    kernel.unreadable = {131}
    findings = scrub_filesystem(str(tmp_path), lambda: None)
    assert str(findings) == "inode 131: can't be read"
    assert {inode for _, inode, _ in kernel.requests} == {0, 128, 132}


@pytest.mark.parametrize(("place", "number"), [((0, 0), errno.ENOTTY), ((12, 131), errno.EIO)])
def test_a_kernel_without_it_and_a_disk_that_fails(
    kernel: Kernel, tmp_path: Path, place: tuple[int, int], number: int
) -> None:
    kernel.flags = {place: -number}
    with pytest.raises(OSError, match=os.strerror(number)):
        scrub_filesystem(str(tmp_path), lambda: None)


def test_a_folder_below_another_mount_is_not_taken_for_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing is mounted there"):
        scrub_filesystem(str(tmp_path), lambda: None)
