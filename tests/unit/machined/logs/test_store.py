"""Logs of services: in memory, on disk, read while they grow."""

from pathlib import Path

import pytest
import trio
import trio.lowlevel

from talos.machined.logs.file import LogFile
from talos.machined.logs.store import MAX_LINE, LineSplitter, LogStore, split_records
from talos.machined.node.ports import UnknownLogError


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
    assert (tmp_path / "apid.log").read_bytes() == b"before\nafter\n"
    assert (tmp_path / "new.log").read_bytes() == b"x\n"
    logs.close_files()
    logs.append("apid", b"only in memory\n")
    assert (tmp_path / "apid.log").read_bytes() == b"before\nafter\n"


async def test_a_full_disk_loses_no_service(tmp_path: Path) -> None:
    logs = LogStore()
    (tmp_path / "apid.log").symlink_to("/dev/full")  # and no log is written through a link
    logs.open_files(tmp_path)
    logs.append("apid", b"line\n")
    assert await content(logs, "apid") == b"line\n"
    file = LogFile(tmp_path / "gone" / "x.log")
    file.write(b"lost\n")
    assert "No such file" in file.error
    (tmp_path / "gone").mkdir()
    file.write(b"kept\n")
    assert file.error == ""
    assert [path.name for path in (tmp_path / "gone").iterdir()] == ["x.log"]


def test_lines() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == b"a\n"
    assert splitter.feed(b"c") == b""
    assert splitter.feed(b"\nd") == b"bc\n"
    assert splitter.finish() == b"d\n"
    assert splitter.finish() == b""
    long = b"x" * (MAX_LINE + 1)
    assert splitter.feed(long) == long + b"\n"
