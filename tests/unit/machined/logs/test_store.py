"""Logs of services: in memory, on disk, read while they grow."""

import json
import threading
from contextlib import aclosing
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from talos.api.internal.feed_pb2 import LogPlace
from talos.machined.logs.file import ROTATE_AT, LogFile
from talos.machined.logs.store import MAX_LINE, LineSplitter, LogStore, split_records
from talos.machined.logs.writer import MAX_WAITING, LogWriter
from talos.machined.node.ports.logs import UnknownLogError


async def content(logs: LogStore, id: str, tail: int = -1) -> bytes:
    async with logs.read(id, tail_lines=tail) as chunks:
        return b"".join([chunk async for chunk in chunks])


def test_records_of_calls_are_separated() -> None:
    record = b'{"time":"t","level":"info","msg":"audit","name":"a"}\n'
    other = b'{"time":"t","level":"info","msg":"x","name":"\\"msg\\":\\"audit\\""}\n'
    assert split_records(other) == (b"", other)
    assert split_records(other + record + other) == (record, other * 2)


async def test_tail_and_whole() -> None:
    logs = LogStore()
    for n in range(10000):  # several chunks
        logs.append("apid", b"line %d\n" % n)
    assert (await content(logs, "apid")).count(b"\n") == 10000
    assert await content(logs, "apid", 2) == b"line 9998\nline 9999\n"
    assert await content(logs, "apid", 0) == b""
    assert (await content(logs, "apid", 5000)).startswith(b"line 5000\n")
    assert (await content(logs, "apid", 20000)).startswith(b"line 0\n")


async def test_unknown() -> None:
    logs = LogStore()
    with pytest.raises(UnknownLogError):
        async with logs.read("nothing"):
            pass
    logs.register("nothing")
    assert await content(logs, "nothing") == b""
    assert logs.ids() == ["nothing"]


async def test_follow() -> None:
    logs = LogStore()
    logs.append("apid", b"old\n")
    async with logs.read("apid", follow=True, tail_lines=0) as chunks, trio.open_nursery() as nursery:

        async def write() -> None:
            for n in range(50):
                logs.append("apid", b"%d\n" % n)
                await trio.lowlevel.checkpoint()

        nursery.start_soon(write)
        found = b""
        while found.count(b"\n") < 50:
            found += await anext(chunks)
        assert found == b"".join(b"%d\n" % n for n in range(50))


async def test_files_begin_with_what_memory_holds(tmp_path: Path) -> None:
    logs = LogStore()
    logs.append("apid", b"before\n")
    logs.open_files(tmp_path)
    logs.append("apid", b"after\n")
    logs.append("new", b"x\n")
    logs.flush_files()
    assert (tmp_path / "apid.log").read_bytes() == b"before\nafter\n"
    assert (tmp_path / "new.log").read_bytes() == b"x\n"
    logs.append("new", b"y\n")
    assert logs.close_files()
    assert (tmp_path / "new.log").read_bytes() == b"x\ny\n"
    logs.append("apid", b"only in memory\n")
    assert (tmp_path / "apid.log").read_bytes() == b"before\nafter\n"


async def test_a_full_disk_loses_no_service(tmp_path: Path) -> None:
    logs = LogStore()
    (tmp_path / "apid.log").symlink_to("/dev/full")  # and no log is written through a link
    logs.open_files(tmp_path)
    logs.append("apid", b"line\n")
    assert await content(logs, "apid") == b"line\n"
    assert logs.close_files()
    file = LogFile(tmp_path / "gone" / "x.log")
    file.write(b"lost\n")
    assert "No such file" in file.error
    (tmp_path / "gone").mkdir()
    file.write(b"kept\n")
    assert file.error == ""
    assert [path.name for path in (tmp_path / "gone").iterdir()] == ["x.log"]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk that stands still until it is set."""
    goes_on, write = threading.Event(), LogFile.write

    def wait(file: LogFile, data: bytes, place: LogPlace | None = None) -> None:
        goes_on.wait()
        write(file, data, place)

    monkeypatch.setattr(LogFile, "write", wait)
    return goes_on


async def test_a_disk_that_stands_still_holds_no_writer_up(tmp_path: Path, disk: threading.Event) -> None:
    """Lines are dropped and counted, and nothing is when it goes on."""
    logs = LogStore()
    logs.open_files(tmp_path)
    line = b"x" * 63 + b"\n"
    for _ in range(10):
        logs.append("apid", line * 16384)
    assert (await content(logs, "apid", 10)).count(b"\n") == 10
    disk.set()
    logs.flush_files()
    logs.append("apid", b"again\n")
    assert logs.close_files()
    lines = (tmp_path / "apid.log").read_bytes().splitlines(keepends=True)
    note = json.loads(lines[-2])
    kept = lines.count(line)
    assert kept == MAX_WAITING // len(line)
    assert note["msg"].startswith(f"{10 * 16384 - kept} lines are missing here")
    assert lines[-1] == b"again\n"


async def take_parts(logs: LogStore, places: dict[str, LogPlace], end: bytes) -> tuple[list[bytes], int]:
    """All lines from places on up to one that ends in ``end``, and how many were missed."""
    lines: list[bytes] = []
    missed = 0
    async with aclosing(logs.follow_all(places)) as parts:
        async for part in parts:
            assert part.place.lines == missed + part.missed + len(lines) + part.lines.count(b"\n")
            missed += part.missed
            lines += part.lines.splitlines()
            if lines[-1].endswith(end):
                break
    return lines, missed


def make_lines(count: int, size: int = 100) -> list[bytes]:
    return [b"line %d " % number + b"x" * size for number in range(count)]


async def test_what_memory_has_dropped_is_read_from_the_disk(tmp_path: Path) -> None:
    (tmp_path / "apid.log").write_bytes(b"of the boot before\n" * 50_000)
    logs, lines = LogStore(), make_lines(40_000)
    for line in lines[:1000]:
        logs.append("apid", line + b"\n")
    logs.open_files(tmp_path)
    for line in lines[1000:]:
        logs.append("apid", line + b"\n")
    logs.flush_files()
    assert (tmp_path / "apid.log.1").exists()
    # From the start, and from within: the first line is of 109 bytes.
    assert await take_parts(logs, {"apid": LogPlace()}, lines[-1]) == (lines, 0)
    after = LogPlace(bytes=len(lines[0]) + 1, lines=1)
    async with aclosing(logs.follow_all({"apid": after})) as parts:
        part = await anext(parts)
    assert part.lines.startswith(lines[1] + b"\n")
    assert part.missed == 0
    assert logs.close_files()


async def test_of_a_long_log_the_disk_has_two_files(tmp_path: Path) -> None:
    logs, lines = LogStore(), make_lines(15_000, size=1000)
    logs.open_files(tmp_path)
    for number, line in enumerate(lines):
        logs.append("apid", line + b"\n")
        if number % 1000 == 0:
            logs.flush_files()
    logs.flush_files()
    found, missed = await take_parts(logs, {"apid": LogPlace()}, lines[-1])
    assert found == lines[missed:]
    assert ROTATE_AT < sum(map(len, found)) < 2 * ROTATE_AT
    assert logs.close_files()


async def test_lines_that_the_disk_did_not_take_are_missed(tmp_path: Path) -> None:
    logs, lines = LogStore(), make_lines(30_000)
    logs.open_files(tmp_path)
    for number, line in enumerate(lines):
        if number == 5000:
            logs.flush_files()
            (tmp_path / "apid.log").rename(tmp_path / "taken away")
            logs.close_files()
        if number == 10_000:
            logs.open_files(tmp_path)
        logs.append("apid", line + b"\n")
    logs.flush_files()
    found, missed = await take_parts(logs, {"apid": LogPlace()}, lines[-1])
    assert found == lines[missed:]
    assert 0 < missed < 20_000
    (tmp_path / "apid.log").unlink()
    found, missed = await take_parts(logs, {"apid": LogPlace()}, lines[-1])
    assert found == lines[missed:]
    assert missed > 20_000
    assert logs.close_files()


def test_a_disk_that_never_goes_on_is_given_up(tmp_path: Path, disk: threading.Event) -> None:
    writer = LogWriter(tmp_path)
    writer.write("apid", b"line\n", LogPlace())
    assert not writer.flush(0.01)
    assert not writer.close(0.01)
    disk.set()  # lets the thread end


def test_lines() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == b"a\n"
    assert splitter.feed(b"c") == b""
    assert splitter.feed(b"\nd") == b"bc\n"
    assert splitter.finish() == b"d\n"
    assert splitter.finish() == b""
    long = b"x" * (MAX_LINE + 1)
    assert splitter.feed(long) == long + b"\n"
