"""The disks that a power cut may leave: what was flushed is there, what came after in any part."""

import socket
import struct
from collections.abc import Generator
from pathlib import Path
from typing import Self

import pytest
from driver.recorder import EIO, LOST, SECTOR, RecordedDisk
from driver.replay import Cut, Replay, choose_cuts, choose_cuts_of_all, list_torn_writes

SIZE = 64 * SECTOR
WRITE, FLUSH = 1, 3


class Client:
    """As much of QEMU's NBD client as a disk needs."""

    def __init__(self, disk: RecordedDisk) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(disk.socket))
        self._receive(18)
        self._socket.sendall(struct.pack(">IQII", 1, 0x49484156454F5054, 7, 6) + bytes(6))
        self._receive(20 + 12 + 20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self._socket.recv(count - len(data))
        return data

    def request(self, kind: int, offset: int = 0, data: bytes = b"") -> int:
        """Send a request; the error that it ends with."""
        self._socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 1, offset, len(data)) + data)
        return int(struct.unpack(">IIQ", self._receive(16))[1])


@pytest.fixture
def disk(tmp_path: Path) -> Generator[RecordedDisk]:
    disk = RecordedDisk(tmp_path / "disk.raw", SIZE)
    yield disk
    disk.close()


def fill(number: int, sectors: int = 1) -> bytes:
    return bytes([number]) * SECTOR * sectors


def make_record(disk: RecordedDisk, base: Path) -> None:
    """One write that is flushed, and two after it."""
    base.write_bytes(disk.path.read_bytes())
    disk.record()
    with Client(disk) as client:
        for kind, offset, data in (
            (WRITE, 0, fill(1)),
            (FLUSH, 0, b""),
            (WRITE, 0, fill(2, 4)),
            (WRITE, 8 * SECTOR, fill(3)),
        ):
            assert client.request(kind, offset, data) == 0
    disk.stop()


def test_what_is_flushed_is_there_and_the_rest_in_part(disk: RecordedDisk, tmp_path: Path) -> None:
    make_record(disk, tmp_path / "base")
    assert [entry is None for entry in disk.writes] == [False, True, False, False]
    replay = Replay(tmp_path / "base", disk, tmp_path / "image")
    with replay.cut(Cut(flushed=2, kept=(2 * SECTOR, 0))):
        assert replay.image.read_bytes() == (fill(2, 2)).ljust(SIZE, b"\0")
    with replay.cut(Cut(flushed=2, kept=(0, SECTOR))):
        data = replay.image.read_bytes()
        assert data[:SECTOR] == fill(1)
        assert data[8 * SECTOR : 9 * SECTOR] == fill(3)
    assert replay.image.read_bytes() == fill(1).ljust(SIZE, b"\0"), "a state outlives its context"


def test_cuts_are_those_of_their_seed_and_in_order(disk: RecordedDisk, tmp_path: Path) -> None:
    make_record(disk, tmp_path / "base")
    cuts = choose_cuts(disk.writes, 50, 7)
    assert cuts == choose_cuts(disk.writes, 50, 7)
    assert [cut.flushed for cut in cuts] == sorted(cut.flushed for cut in cuts)
    assert {cut.flushed for cut in cuts} == {0, 2}
    assert all(kept % SECTOR == 0 for cut in cuts for kept in cut.kept)


def test_disks_lose_their_power_at_once(disk: RecordedDisk, tmp_path: Path) -> None:
    other = RecordedDisk(tmp_path / "other.raw", SIZE)
    disk.record()
    other.record()
    with Client(disk) as first, Client(other) as second:
        for number in range(1, 5):  # each write to one is flushed before the other's
            for client in (first, second):
                assert client.request(WRITE, 0, fill(number)) == 0
                assert client.request(FLUSH) == 0
    other.close()
    pairs = choose_cuts_of_all([disk, other], 50, 7)
    assert pairs == choose_cuts_of_all([disk, other], 50, 7)
    assert {one.flushed - two.flushed for one, two in pairs} == {0, 2}
    for cuts in zip(*pairs, strict=True):
        assert [cut.flushed for cut in cuts] == sorted(cut.flushed for cut in cuts)


def test_writes_are_torn_at_every_sector(disk: RecordedDisk, tmp_path: Path) -> None:
    make_record(disk, tmp_path / "base")
    cuts = list(list_torn_writes(disk.writes, 0, 4 * SECTOR))
    assert [cut.kept for cut in cuts if cut.flushed == 2] == [
        (torn * SECTOR, other) for other in (0, SECTOR) for torn in range(4)
    ]


def test_writes_fail_and_are_lost(disk: RecordedDisk) -> None:
    with Client(disk) as client:
        with disk.fail(lambda offset, _: EIO if offset else LOST):
            assert client.request(WRITE, SECTOR, fill(1)) == EIO
            assert client.request(WRITE, 0, fill(1)) == 0
        assert disk.failed == 2
        assert not any(disk.path.read_bytes())
        assert client.request(WRITE, 0, fill(1)) == 0
    assert disk.path.read_bytes() == fill(1).ljust(SIZE, b"\0")
