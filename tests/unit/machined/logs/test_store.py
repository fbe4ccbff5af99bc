"""Logs of services: in memory, on disk, read while they grow."""

import json
import os
import threading
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from talos.machined.logs.file import LogFile
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


async def test_a_disk_that_stands_still_holds_no_writer_up(tmp_path: Path) -> None:
    """Lines are dropped and counted, and nothing is when it goes on."""
    os.mkfifo(tmp_path / "apid.log")  # opening it waits until another process reads
    logs = LogStore()
    logs.open_files(tmp_path)
    line = b"x" * 63 + b"\n"
    for _ in range(10):
        logs.append("apid", line * 16384)
    assert (await content(logs, "apid", 10)).count(b"\n") == 10
    found: list[bytes] = []

    def read() -> None:
        found.append((tmp_path / "apid.log").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    logs.flush_files()
    logs.append("apid", b"again\n")
    assert logs.close_files()
    reader.join()
    lines = found[0].splitlines(keepends=True)
    note = json.loads(lines[-2])
    kept = lines.count(line)
    assert kept == MAX_WAITING // len(line)
    assert note["msg"].startswith(f"{10 * 16384 - kept} lines are missing here")
    assert lines[-1] == b"again\n"


def test_a_disk_that_never_goes_on_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "apid.log")
    writer = LogWriter(tmp_path)
    writer.write("apid", b"line\n")
    assert not writer.flush(0.01)
    assert not writer.close(0.01)
    (tmp_path / "apid.log").read_bytes()  # lets the thread end


def test_lines() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == b"a\n"
    assert splitter.feed(b"c") == b""
    assert splitter.feed(b"\nd") == b"bc\n"
    assert splitter.finish() == b"d\n"
    assert splitter.finish() == b""
    long = b"x" * (MAX_LINE + 1)
    assert splitter.feed(long) == long + b"\n"
