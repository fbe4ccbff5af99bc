"""List, DiskUsage, Read, Copy and Statfs on real directories."""

import gzip
import io
import os
import shutil
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest
import trio

from talos.api.machine import machine_pb2 as pb
from talos.api.machine import storage_pb2
from talos.api.rpc import Code, RpcError
from talos.machined.api.archive import CHUNK

needs_sys = pytest.mark.skipif(
    not Path("/sys/bus/cpu").exists(),
    reason="a build sandbox has no /sys",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "a" / "b" / "c").mkdir(parents=True)
    (root / "a" / "one").write_bytes(b"x" * 100)
    (root / "a" / "b" / "two").write_bytes(b"y" * 1000)
    (root / "z").symlink_to("a//one")
    (root / "empty").touch(mode=0o600)
    return root


async def list_names(caller: Any, **request: Any) -> list[str]:
    return [frame.relative_name for frame in await caller.read("List", pb.ListRequest(**request))]


async def test_list_shows_the_root_and_its_children_only(caller: Any, tree: Path) -> None:
    assert await list_names(caller, root=str(tree)) == [".", "a", "empty", "z"]


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**40)])
async def test_the_greatest_time_of_a_file_is_shown(
    caller: Any, tree: Path, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.lstat

    def lstat(path: Any) -> os.stat_result:
        found = real(path)
        times = {"st_mtime": float(seconds), "st_mtime_ns": seconds * 1_000_000_000}
        return os.stat_result(tuple(found), {"st_blocks": found.st_blocks, **times})

    monkeypatch.setattr(os, "lstat", lstat)
    assert {frame.modified for frame in await caller.read("List", pb.ListRequest(root=str(tree)))} == {
        seconds
    }
    data = b"".join([frame.bytes for frame in await caller.read("Copy", pb.CopyRequest(root_path=str(tree)))])
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert {float(member.mtime) for member in archive} == {float(seconds)}


async def test_list_recurses_parents_first(caller: Any, tree: Path) -> None:
    names = await list_names(caller, root=str(tree), recurse=True)
    assert names == [".", "a", "a/b", "a/b/c", "a/b/two", "a/one", "empty", "z"]


async def test_list_stops_at_the_depth(caller: Any, tree: Path) -> None:
    names = await list_names(caller, root=str(tree), recurse=True, recursion_depth=2)
    assert names == [".", "a", "a/b", "a/one", "empty", "z"]


async def test_list_filters_by_type_but_still_descends(caller: Any, tree: Path) -> None:
    names = await list_names(caller, root=str(tree), recurse=True, types=[pb.ListRequest.REGULAR])
    assert names == ["a/b/two", "a/one", "empty"]
    names = await list_names(
        caller, root=str(tree), recurse=True, types=[pb.ListRequest.SYMLINK, pb.ListRequest.DIRECTORY]
    )
    assert names == [".", "a", "a/b", "a/b/c", "z"]


@pytest.mark.root
async def test_list_has_modes_as_the_existing_client_reads_them(caller: Any, tree: Path) -> None:
    (tree / "empty").chmod(0o4755)
    (tree / "a").chmod(0o1777)
    frames = {f.relative_name: f for f in await caller.read("List", pb.ListRequest(root=str(tree)))}
    assert frames["a"].is_dir
    assert frames["a"].mode == 1 << 31 | 1 << 20 | 0o777
    assert frames["empty"].mode == 1 << 23 | 0o755
    assert frames["z"].mode == 1 << 27 | 0o777
    assert frames["z"].link == "a//one"
    assert frames["a"].uid == os.getuid()
    assert frames["a"].name == str(tree / "a")
    assert frames["a"].modified == int((tree / "a").stat().st_mtime)


async def test_list_of_a_file_is_the_file(caller: Any, tree: Path) -> None:
    [frame] = await caller.read("List", pb.ListRequest(root=str(tree / "a" / "one")))
    assert (frame.relative_name, frame.size, frame.is_dir) == ("one", 100, False)


async def test_list_shows_devices_of_this_machine(caller: Any) -> None:
    frames = {f.relative_name: f for f in await caller.read("List", pb.ListRequest(root="/dev"))}
    assert frames["null"].mode & (1 << 26 | 1 << 21) == 1 << 26 | 1 << 21


def make_odd_names(folder: Path) -> None:
    folder.mkdir()
    (folder / os.fsdecode(b"\xff\xfe")).touch()


async def test_names_that_are_not_utf8_are_shown_replaced(caller: Any, tmp_path: Path) -> None:
    make_odd_names(tmp_path / "odd")
    assert await list_names(caller, root=str(tmp_path / "odd")) == [".", "\ufffd\ufffd"]


async def test_a_list_of_what_is_not_there_ends_as_upstreams(caller: Any) -> None:
    with pytest.raises(RpcError) as caught:
        await caller.read("List", pb.ListRequest(root="/does/not/exist"))
    assert caught.value.code is Code.UNKNOWN
    assert caught.value.message == "lstat /does/not/exist: no such file or directory"


@pytest.mark.parametrize("method", ["List", "Read", "Copy"])
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("etc/hosts", Code.INVALID_ARGUMENT),
        ("../etc", Code.INVALID_ARGUMENT),
        ("/a\0b", Code.INVALID_ARGUMENT),
        ("/" + "x" * 5000, Code.INVALID_ARGUMENT),
        ("/does/not/exist", Code.NOT_FOUND),
        ("/etc/hosts/x", Code.NOT_FOUND),
    ],
)
async def test_bad_paths_are_refused(caller: Any, method: str, path: str, code: Code) -> None:
    with pytest.raises(RpcError) as caught:
        await caller.read(method, make_request(method, path))
    assert caught.value.code is (Code.UNKNOWN if (method, code) == ("List", Code.NOT_FOUND) else code)


@pytest.mark.parametrize("method", ["List", "Read", "Copy"])
async def test_loops_of_links_are_refused(caller: Any, tmp_path: Path, method: str) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(RpcError) as caught:
        await caller.read(method, make_request(method, str(tmp_path / "one")))
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert "too many levels of symbolic links" in caught.value.message


def make_request(method: str, path: str) -> Any:
    match method:
        case "List":
            return pb.ListRequest(root=path)
        case "Read":
            return pb.ReadRequest(path=path)
        case _:
            return pb.CopyRequest(root_path=path)


async def test_a_loop_inside_a_tree_does_not_matter(caller: Any, tree: Path) -> None:
    (tree / "a" / "up").symlink_to("..")
    assert "a/up" in await list_names(caller, root=str(tree), recurse=True)


async def test_a_tree_deeper_than_a_path_can_name_ends_in_an_error(caller: Any, tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=descriptor)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    try:
        frames = await caller.read("List", pb.ListRequest(root=str(root), recurse=True))
    finally:
        # By descriptors, as it was made: who cleans up by name later can't.
        shutil.rmtree(root)
    assert "file name too long" in frames[-1].error
    assert len(frames) < 60


async def test_read_gives_the_bytes(caller: Any, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "data").write_bytes(content)
    frames = await caller.read("Read", pb.ReadRequest(path=str(tmp_path / "data")))
    assert b"".join(frame.bytes for frame in frames) == content


async def test_read_follows_links_and_reads_proc(caller: Any, tree: Path) -> None:
    [frame] = await caller.read("Read", pb.ReadRequest(path=str(tree / "z")))
    assert frame.bytes == b"x" * 100
    [frame] = await caller.read("Read", pb.ReadRequest(path="/proc/version"))
    assert frame.bytes.startswith(b"Linux")


async def test_read_of_an_empty_file_is_an_empty_stream(caller: Any, tree: Path) -> None:
    assert await caller.read("Read", pb.ReadRequest(path=str(tree / "empty"))) == []


async def test_read_refuses_all_but_regular_files(caller: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        paths = [tmp_path, tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero"), Path("/proc/kcore")]
        for path in filter(Path.exists, paths):  # some kernels have no kcore
            with pytest.raises(RpcError) as caught:
                await caller.read("Read", pb.ReadRequest(path=str(path)))
            assert (caught.value.code, caught.value.message) == (
                Code.UNKNOWN,
                "path must be a regular file",
            )


async def test_a_reader_who_stops_reading_stops_the_work(caller: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(10_000_000))
    sent, was_sent = 0, trio.Event()

    async def send(frame: Any) -> None:
        nonlocal sent
        sent += len(frame.bytes)
        was_sent.set()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        request = pb.ReadRequest(path=str(tmp_path / "data"))
        nursery.start_soon(caller.handler("Read"), request, None, send)
        await was_sent.wait()
        nursery.cancel_scope.cancel()
    assert 0 < sent <= 65536
    assert str(tmp_path / "data") not in list_open_files()


def list_open_files() -> list[str]:
    links = list(Path("/proc/self/fd").iterdir())
    return [str(link.readlink()) for link in links if link.is_symlink()]


async def copy(caller: Any, path: Path | str) -> tuple[dict[str, tuple[tarfile.TarInfo, bytes]], str]:
    frames = await caller.read("Copy", pb.CopyRequest(root_path=str(path)))
    error = "".join(frame.metadata.error for frame in frames)
    packed = b"".join(frame.bytes for frame in frames)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        found: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            found[member.name] = (member, content.read() if content else b"")
    return found, error


async def test_copy_makes_a_tar_of_the_tree(caller: Any, tree: Path) -> None:
    big = os.urandom(200_001)
    (tree / "big").write_bytes(big)
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tree / "socket"))
        found, error = await copy(caller, tree)
    assert error == ""
    assert sorted(found) == ["a", "a/b", "a/b/c", "a/b/two", "a/one", "big", "empty", "pipe", "z"]
    assert found["big"][1] == big
    assert found["a/one"][1] == b"x" * 100
    assert found["z"][0].linkname == "a//one"
    assert found["empty"][0].mode == 0o600
    assert found["a/b"][0].isdir()
    assert found["pipe"][0].isfifo()


async def test_copy_of_a_file_holds_the_file(caller: Any, tree: Path) -> None:
    found, _ = await copy(caller, tree / "a" / "one")
    assert [*found] == ["one"]


async def test_copy_reads_files_of_the_kernel_whatever_size_they_claim(caller: Any) -> None:
    found, _ = await copy(caller, "/proc/sys/kernel/random")
    assert len(found["boot_id"][1]) == 37


@needs_sys
async def test_copy_does_not_believe_the_sizes_of_sysfs(caller: Any) -> None:
    found, _ = await copy(caller, "/sys/class/net/lo/statistics")
    assert found["rx_bytes"][1].strip().isdigit()


async def usage(caller: Any, **request: Any) -> dict[str, int]:
    frames = await caller.read("DiskUsage", pb.DiskUsageRequest(**request))
    return {frame.relative_name: frame.size for frame in frames if not frame.error}


async def test_disk_usage_sums_directories_up(caller: Any, tree: Path) -> None:
    own = {path: (tree / path).stat().st_size for path in (".", "a", "a/b", "a/b/c")}
    sizes = await usage(caller, paths=[str(tree)])
    inner = own["a/b"] + own["a/b/c"] + 1000
    assert sizes == {
        "a/b/c": own["a/b/c"],
        "a/b": inner,
        "a": own["a"] + inner + 100,
        ".": own["."] + own["a"] + inner + 100 + len("a//one"),
    }


async def test_disk_usage_shows_files_only_on_request(caller: Any, tree: Path) -> None:
    sizes = await usage(caller, paths=[str(tree)], all=True)
    assert sizes["a/b/two"] == 1000
    assert [*sizes][-1] == "."


async def test_disk_usage_keeps_to_depth_and_threshold(caller: Any, tree: Path) -> None:
    assert [*await usage(caller, paths=[str(tree)], recursion_depth=1)] == ["."]
    assert [*await usage(caller, paths=[str(tree)], recursion_depth=2)] == ["a", "."]
    above = await usage(caller, paths=[str(tree)], all=True, threshold=500)
    assert "a/b/two" in above
    assert "a/one" not in above
    below = await usage(caller, paths=[str(tree)], all=True, threshold=-500)
    assert [*below] == ["a/one", "empty", "z"]


async def test_disk_usage_goes_on_after_a_path_that_is_not_there(caller: Any, tree: Path) -> None:
    frames = await caller.read("DiskUsage", pb.DiskUsageRequest(paths=["/nowhere", str(tree / "a" / "one")]))
    assert frames[0].error == "stat /nowhere: no such file or directory"
    assert (frames[1].relative_name, frames[1].size) == ("one", 100)


async def test_disk_usage_of_proc_is_not_the_address_space(caller: Any) -> None:
    sizes = await usage(caller, paths=["/proc/kcore", "/proc/sys"])
    assert sum(sizes.values()) == 0


async def test_statfs_adds_up(caller: Any, tmp_path: Path) -> None:
    request = storage_pb2.StorageServiceStatfsRequest(path=str(tmp_path))
    reply = await caller.call("Statfs", request, "machine.StorageService")
    assert reply.size >= reply.used + reply.available > 0
    assert reply.inodes == reply.inodes_used + reply.inodes_free
    request = storage_pb2.StorageServiceStatfsRequest(path="/nowhere")
    with pytest.raises(RpcError) as caught:
        await caller.call("Statfs", request, "machine.StorageService")
    assert caught.value.code is Code.NOT_FOUND


@needs_sys
async def test_copy_passes_over_what_can_only_be_written_to(caller: Any) -> None:
    _, error = await copy(caller, "/sys/bus/cpu")  # holds drivers_probe and its like
    assert error == ""


async def test_what_goes_while_it_is_listed_is_no_error(caller: Any) -> None:
    for path in ("/proc/self/fd", "/proc/self/task"):
        frames = await caller.read("List", pb.ListRequest(root=path, recurse=True))
        assert [frame.error for frame in frames if frame.error] == []


async def test_a_file_that_fails_in_the_middle_leaves_the_archive_whole(
    caller: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "big").write_bytes(b"b" * 200_000)
    real = os.read
    left = [3]

    def fail(descriptor: int, length: int) -> bytes:
        if length == CHUNK:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(5, os.strerror(5))
        return real(descriptor, length)

    (tree / "a" / "one").unlink()
    (tree / "a" / "b" / "two").unlink()
    monkeypatch.setattr("talos.machined.api.archive.os.read", fail)
    found, error = await copy(caller, tree)
    assert f"skipping read {tree}/big: input/output error" in error
    assert len(found["big"][1]) == 200_000
    assert found["big"][1].startswith(b"b" * CHUNK)
    assert found["empty"][0].size == 0
