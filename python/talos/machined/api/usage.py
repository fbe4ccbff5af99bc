"""Sizes of directories with all that is in them, for DiskUsage."""

import itertools
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from talos.api.machine import machine_pb2
from talos.machined.api.paths import make_text
from talos.machined.api.tree import Entry, walk

_BATCH = 256


@dataclass(slots=True, kw_only=True)
class _Folder:
    """A directory that the walk has not finished."""

    path: str
    relative: str
    level: int
    size: int


def measure(root: str, request: machine_pb2.DiskUsageRequest) -> Generator[list[machine_pb2.DiskUsageInfo]]:
    """Batches of requested entries, a directory after its content."""
    for batch in itertools.batched(_measure(root, request), _BATCH, strict=False):
        yield [frame for frame in batch if frame is not None]


def _measure(root: str, request: machine_pb2.DiskUsageRequest) -> Generator[machine_pb2.DiskUsageInfo | None]:
    """Every step of the walk, also without an entry, so that the caller can stop."""
    open_folders: list[_Folder] = []
    pseudo = _get_device("/proc")

    def close(level: int) -> Generator[machine_pb2.DiskUsageInfo | None]:
        while open_folders and open_folders[-1].level >= level:
            folder = open_folders.pop()
            if open_folders:
                open_folders[-1].size += folder.size
            yield _show(folder, request)

    for entry in walk(root):
        if entry.info is None:
            # An error inside of an open directory, or the directory's own: it stays open.
            yield _make_error(entry)
            continue
        yield from close(entry.level)
        # Sizes in /proc are nominal (kcore: the address space) and take no space.
        size = 0 if entry.info.st_dev == pseudo else entry.info.st_size
        row = _Folder(path=entry.path, relative=entry.relative, level=entry.level, size=size)
        if entry.is_dir:
            open_folders.append(row)
            yield None
        else:
            if open_folders:
                open_folders[-1].size += size
            # A file that the caller named is shown in any case.
            yield _show(row, request) if request.all or entry.level == 0 else None
    yield from close(0)


def _get_device(path: str) -> int:
    try:
        return Path(path).stat().st_dev
    except OSError:
        return -1


def _show(row: _Folder, request: machine_pb2.DiskUsageRequest) -> machine_pb2.DiskUsageInfo | None:
    depth, threshold = request.recursion_depth, request.threshold
    too_deep = 0 < depth <= row.level
    too_small = threshold > 0 and row.size < threshold
    too_large = threshold < 0 and row.size > -threshold
    if too_deep or too_small or too_large:
        return None
    return machine_pb2.DiskUsageInfo(
        name=make_text(row.path), relative_name=make_text(row.relative), size=row.size
    )


def _make_error(entry: Entry) -> machine_pb2.DiskUsageInfo:
    return machine_pb2.DiskUsageInfo(
        name=make_text(entry.path), relative_name=make_text(entry.relative), error=entry.error
    )
