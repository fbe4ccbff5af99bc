"""Kubernetes' audit log, which the API server writes and rotates in files, as one stream of lines.

No file stays open: its disk could not be unmounted. The folder is the API server's, and is not trusted.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from talos.system.regular import read_regular

FOLDER = Path("/var/log/audit/kube")
CURRENT = "kube-apiserver.log"
BACKLOG = 1024 * 1024
"""Bytes of the newest file with which a stream begins."""
MAX_CHUNK = 128 * 1024
"""Bytes that are read at once; a line that is longer is cut."""
POLL_INTERVAL = 1.0
"""Seconds between two checks for new lines."""
_NAME = re.compile(r"kube-apiserver(?:-[0-9T.-]{1,40})?\.log", re.ASCII)
"""Files that were rotated have their time in the name, and so sort by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPosition:
    """Up to where a file was read; the inode is the file, whatever its name is by now."""

    inode: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole lines, and the position after them."""

    lines: bytes
    position: ReadPosition
    has_gap: bool = False
    """The file with the lines before was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: str
    inode: int
    size: int


def read_chunk(folder: Path, after: ReadPosition | None) -> Chunk | None:
    """The next lines after a position, or of the newest file; None when there are none yet. Blocks."""
    files, index, has_gap = _find(folder, after)
    if not files:
        return None
    if after is None:
        file = files[-1]
        return _read(file, max(0, file.size - BACKLOG), is_whole=file.size <= BACKLOG)
    offset = 0 if has_gap or after.offset > files[index].size else after.offset
    for file in files[index:]:
        found = _read(file, offset)
        if found is not None:
            return Chunk(lines=found.lines, position=found.position, has_gap=has_gap)
        offset = 0
    return None


def _find(folder: Path, after: ReadPosition | None) -> tuple[list[_File], int, bool]:
    """The files, the oldest first; where that of a position is; whether it is gone, so that all are newer."""
    files: list[_File] = []
    # A listing may miss a file that is renamed meanwhile.
    for _ in range(2):
        files = _list_files(folder)
        for index, file in enumerate(files):
            if after is None or file.inode == after.inode:
                return files, index, False
    return files, 0, True


def _list_files(folder: Path) -> list[_File]:
    found: list[_File] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if _NAME.fullmatch(entry.name) and stat.S_ISREG(status.st_mode):
                    found.append(_File(path=entry.path, inode=status.st_ino, size=status.st_size))
    except OSError:
        return []  # not there yet, or a file has gone meanwhile: the next check shows
    return sorted(found, key=lambda file: (file.path.endswith(f"/{CURRENT}"), file.path))


def _read(file: _File, offset: int, *, is_whole: bool = True) -> Chunk | None:
    """Lines of a file from a offset on, which is not the start of one if it is not ``is_whole``."""
    data = read_regular(Path(file.path), offset, MAX_CHUNK, inode=file.inode)
    if data is None:
        return None
    begin = 0 if is_whole else data.find(b"\n") + 1
    end = data.rfind(b"\n") + 1
    cut = b"\n" if not end and len(data) == MAX_CHUNK else b""
    end = len(data) if cut else end
    if not end:
        return None
    position = ReadPosition(inode=file.inode, offset=offset + end)
    return Chunk(lines=data[begin:end] + cut, position=position)
