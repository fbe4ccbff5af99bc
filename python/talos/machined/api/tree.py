"""Walking through directories, in the order and with the names that upstream's List has."""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from talos.machined.api.paths import describe

# Bits of Go's os.FileMode, the API's form of modes.
_TYPE_BITS = {
    stat.S_IFDIR: 1 << 31,
    stat.S_IFLNK: 1 << 27,
    stat.S_IFBLK: 1 << 26,
    stat.S_IFCHR: 1 << 26 | 1 << 21,
    stat.S_IFIFO: 1 << 25,
    stat.S_IFSOCK: 1 << 24,
}
_MISSING = {errno.ENOENT, errno.ESRCH}
"""Processes end during a walk through /proc: that is no error."""
_SET_BITS = {stat.S_ISUID: 1 << 23, stat.S_ISGID: 1 << 22, stat.S_ISVTX: 1 << 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file. ``level`` is 0 for the root; ``info`` is absent when there is an error instead.

    ``is_missing``: it was there when its directory was read, but not any more.
    """

    path: str
    relative: str
    level: int
    info: os.stat_result | None = None
    link: str = ""
    error: str = ""
    is_missing: bool = False

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.info is not None and stat.S_ISDIR(self.info.st_mode)


def walk(root: str, *, depth: int = -1) -> Generator[Entry]:
    """The root and what is below it, parents first, names sorted; links are not followed.

    ``depth`` is how many levels below the root are shown, negative for all. Directories too
    deep for the kernel to name end in an error entry, so the walk always ends.
    """
    first = _read_entry(root, ".", 0)
    if first.info is not None and not first.is_dir:
        yield _read_entry(root, PurePosixPath(root).name, 0)
        return
    yield first
    # Not recursive: a tree may be deeper than the interpreter's stack.
    pending: list[tuple[Entry, Iterator[str]]] = []
    names, problem = _list(first)
    if problem:
        yield problem
    pending.append((first, names))
    while pending:
        parent, names = pending[-1]
        name = next(names, None)
        if name is None:
            pending.pop()
            continue
        relative = name if parent.level == 0 else f"{parent.relative}/{name}"
        entry = _read_entry(f"{parent.path.rstrip('/')}/{name}", relative, parent.level + 1)
        if entry.is_missing:
            continue
        yield entry
        if entry.is_dir and (depth < 0 or entry.level < depth):
            names, problem = _list(entry)
            if problem:
                yield problem
            pending.append((entry, names))


def _read_entry(path: str, relative: str, level: int) -> Entry:
    try:
        info = os.lstat(path)
        link = ""
        if stat.S_ISLNK(info.st_mode):
            link = os.readlink(path)  # noqa: PTH115 - Path would normalize the text
    except OSError as error:
        text = describe("lstat", path, error)
        missing = error.errno in _MISSING
        return Entry(path=path, relative=relative, level=level, error=text, is_missing=missing)
    return Entry(path=path, relative=relative, level=level, info=info, link=link)


def _list(entry: Entry) -> tuple[Iterator[str], Entry | None]:
    try:
        names = os.listdir(entry.path)  # noqa: PTH208 - only names are needed
    except OSError as error:
        if error.errno in _MISSING:
            return iter(()), None
        text = describe("open", entry.path, error)
        return iter(()), Entry(path=entry.path, relative=entry.relative, level=entry.level, error=text)
    return iter(sorted(names)), None


def make_mode(mode: int) -> int:
    """A kernel's mode as Go's ``os.FileMode``."""
    set_bits = sum(bit for kernel, bit in _SET_BITS.items() if mode & kernel)
    return mode & 0o777 | set_bits | _TYPE_BITS.get(stat.S_IFMT(mode), 0)
