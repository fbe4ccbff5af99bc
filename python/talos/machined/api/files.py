"""List, DiskUsage, Read, Copy and Statfs: the node's files."""

import itertools
import os
import stat
from collections.abc import Generator, Iterable, Mapping, Sequence

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2, storage_pb2
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.machined.api.archive import make_archive, read_file
from talos.machined.api.paths import NotRegularError, check_path, make_error, make_text, resolve
from talos.machined.api.pump import in_thread, pump
from talos.machined.api.tree import Entry, make_mode, walk
from talos.machined.api.usage import measure
from talos.machined.node.ports.node import Node

_BATCH = 64
"""Files per step in a thread: a switch of threads costs as much as several lstat calls."""

MAX_PATHS = 64
"""Paths of one DiskUsage call: each is a walk through directories."""

_TYPES = {
    machine_pb2.ListRequest.REGULAR: stat.S_IFREG,
    machine_pb2.ListRequest.DIRECTORY: stat.S_IFDIR,
    machine_pb2.ListRequest.SYMLINK: stat.S_IFLNK,
}


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    del node
    return {"List": run_list, "DiskUsage": run_disk_usage, "Read": run_read, "Copy": run_copy}


def storage_handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.StorageService."""
    del node
    return {"Statfs": run_statfs}


async def run_list(request: machine_pb2.ListRequest, _call: Call, send: Send) -> None:
    """One frame a file; a file whose lstat fails has an error in its frame."""
    types = {_TYPES[kind] for kind in request.types if kind in _TYPES}
    if len(types) < len(set(request.types)):
        raise RpcError(Code.INVALID_ARGUMENT, f"unknown file type in {list(request.types)}")
    root = await in_thread(_find_root, check_path(request.root))
    depth = 1 if not request.recurse else request.recursion_depth or -1

    def steps() -> Generator[list[machine_pb2.FileInfo]]:
        entries = walk(root, depth=depth)
        for batch in itertools.batched(entries, _BATCH, strict=False):
            shown = [entry for entry in batch if _is_wanted(entry, types)]
            yield [_make_file_info(entry, want_xattrs=request.report_xattrs) for entry in shown]

    async def send_all(frames: Sequence[machine_pb2.FileInfo]) -> None:
        for frame in frames:
            await send(frame)

    await pump(steps(), send_all, walking=True)


def _find_root(path: str) -> str:
    try:
        return resolve(path, verb="lstat")
    except RpcError as error:
        # Upstream's List has no code for it, and clients look for Unknown.
        code = Code.UNKNOWN if error.code is Code.NOT_FOUND else error.code
        raise RpcError(code, error.message) from None


def _is_wanted(entry: Entry, types: Iterable[int]) -> bool:
    return entry.info is None or not types or stat.S_IFMT(entry.info.st_mode) in types


def _make_file_info(entry: Entry, *, want_xattrs: bool) -> machine_pb2.FileInfo:
    name, relative = make_text(entry.path), make_text(entry.relative)
    if entry.info is None:
        return machine_pb2.FileInfo(name=name, relative_name=relative, error=entry.error)
    return machine_pb2.FileInfo(
        name=name,
        relative_name=relative,
        size=entry.info.st_size,
        mode=make_mode(entry.info.st_mode),
        # Exactly: as a fraction the greatest time that a file can have would be too great.
        modified=entry.info.st_mtime_ns // 1_000_000_000,
        is_dir=entry.is_dir,
        link=make_text(entry.link),
        uid=entry.info.st_uid,
        gid=entry.info.st_gid,
        xattrs=_read_xattrs(entry.path) if want_xattrs else (),
    )


def _read_xattrs(path: str) -> list[machine_pb2.Xattr]:
    found: list[machine_pb2.Xattr] = []
    try:
        for name in os.listxattr(path, follow_symlinks=False):
            data = os.getxattr(path, name, follow_symlinks=False)
            found.append(machine_pb2.Xattr(name=make_text(name), data=data))
    except OSError:
        pass  # not every file system has them
    return found


async def run_disk_usage(request: machine_pb2.DiskUsageRequest, _call: Call, send: Send) -> None:
    """One frame a directory, with all below it summed up; with ``all`` one a file, too."""
    if len(request.paths) > MAX_PATHS:
        raise RpcError(Code.INVALID_ARGUMENT, f"{len(request.paths)} paths, at most {MAX_PATHS} are allowed")
    paths = [check_path(path) for path in request.paths or ["/"]]

    async def send_all(frames: Sequence[machine_pb2.DiskUsageInfo]) -> None:
        for frame in frames:
            await send(frame)

    for path in paths:
        try:
            root = await in_thread(resolve, path)
        except RpcError as error:
            # The other paths are still reported.
            await send(machine_pb2.DiskUsageInfo(name=path, relative_name=path, error=error.reason))
            continue
        await pump(measure(root, request), send_all, walking=True)


async def run_read(request: machine_pb2.ReadRequest, _call: Call, send: Send) -> None:
    """The bytes of a regular file."""
    if not request.path:
        raise RpcError(Code.INVALID_ARGUMENT, "path is empty")
    path = check_path(request.path)

    async def send_all(chunks: Sequence[bytes]) -> None:
        for chunk in chunks:
            await send(common_pb2.Data(bytes=chunk))

    try:
        await pump(read_file(path), send_all)
    except NotRegularError:
        raise RpcError(Code.UNKNOWN, "path must be a regular file") from None
    except OSError as error:
        raise make_error("open", path, error) from None


async def run_copy(request: machine_pb2.CopyRequest, _call: Call, send: Send) -> None:
    """A gzip'd tar; the last frame has an error that lists what was left out."""
    if not request.root_path:
        raise RpcError(Code.INVALID_ARGUMENT, "path is empty")
    root = await in_thread(resolve, check_path(request.root_path))
    errors: list[str] = []

    async def send_data(data: bytes) -> None:
        if data:
            await send(common_pb2.Data(bytes=data))

    await pump(make_archive(root, errors), send_data)
    if errors:
        text = make_text("; ".join(errors))
        await send(common_pb2.Data(metadata=common_pb2.Metadata(error=text)))


async def run_statfs(
    request: storage_pb2.StorageServiceStatfsRequest, _call: Call
) -> storage_pb2.StorageServiceStatfsResponse:
    """How full the file system is that a path is on, in bytes and inodes."""
    path = check_path(request.path)
    try:
        info = await in_thread(os.statvfs, path)
    except OSError as error:
        raise make_error("statfs", path, error) from None
    return storage_pb2.StorageServiceStatfsResponse(
        size=info.f_blocks * info.f_frsize,
        used=(info.f_blocks - info.f_bfree) * info.f_frsize,
        available=info.f_bavail * info.f_frsize,
        inodes=info.f_files,
        inodes_used=info.f_files - info.f_ffree,
        inodes_free=info.f_ffree,
    )
