"""A directory tree as a gzip'd tar, made piece by piece."""

import errno
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import islice

from talos.machined.api.paths import NotRegularError, describe, open_regular
from talos.machined.api.tree import Entry, walk

CHUNK = 60 * 1024
"""Bytes of a file in a message: with what surrounds them, they fit into one frame of 64 KiB."""
_AHEAD = 4
"""Chunks that are read in one turn of a thread, which costs as much as to send one."""
_MAX_UNSIZED = 16 * 1024 * 1024
"""The longest file of unknown size that is archived: it is read first, as a tar header holds the size."""
_MAX_ERRORS = 50
_NOTHING_TO_READ = {errno.EINVAL, errno.EOPNOTSUPP}
_GZIP = 16 + zlib.MAX_WBITS
_FAST = 1  # PID 1's processor time is scarcer than bandwidth
_TYPES = {
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
    stat.S_IFREG: tarfile.REGTYPE,
}


def make_archive(root: str, errors: list[str]) -> Generator[bytes]:
    """Pieces of the archive; an empty piece only gives the caller a chance to stop.

    Names are relative to the root; the root itself is left out unless it is a file. What
    can't be read is left out and listed in ``errors``.
    """
    packer = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    for piece in _make_tar(root, errors):
        yield packer.compress(piece)
    yield packer.compress(bytes(2 * tarfile.BLOCKSIZE)) + packer.flush()


def _make_tar(root: str, errors: list[str]) -> Iterator[bytes]:
    def report(text: str) -> None:
        if len(errors) < _MAX_ERRORS:
            errors.append(text)
        elif len(errors) == _MAX_ERRORS:
            errors.append("further errors are not listed")

    for entry in walk(root):
        if entry.info is None:
            report(f"skipping {entry.error}")
        elif entry.relative == "." or _is_order(entry.info):
            continue
        elif stat.S_ISREG(entry.info.st_mode):
            yield from _try_file(entry, entry.info, report)
        elif header := _make_header(entry, entry.info):
            yield _pack_header(header)


def _try_file(entry: Entry, info: os.stat_result, report: Callable[[str], None]) -> Iterator[bytes]:
    try:
        yield from _pack_file(entry, info)
    except (FileNotFoundError, ProcessLookupError):
        pass  # removed meanwhile
    except OSError as error:
        # Some files of the kernel have a readable mode, but no data.
        is_empty = not info.st_blocks and error.errno in _NOTHING_TO_READ
        if isinstance(error, NotRegularError) or not is_empty:
            report(f"skipping {_explain(entry.path, error)}")


def _is_order(info: os.stat_result) -> bool:
    """Whether it is a file of the kernel that can only be written to, such as ``cgroup.kill``."""
    return stat.S_ISREG(info.st_mode) and not info.st_mode & 0o444 and not info.st_blocks


def _explain(path: str, error: OSError) -> str:
    if isinstance(error, NotRegularError):
        return f"{path}: {error.strerror}"
    return describe("read", path, error)


def _make_header(entry: Entry, info: os.stat_result) -> tarfile.TarInfo | None:
    """Nothing for a socket, which a tar can't hold."""
    kind = _TYPES.get(stat.S_IFMT(info.st_mode))
    if kind is None:
        return None
    header = tarfile.TarInfo(entry.relative)
    header.type = kind
    header.mode = stat.S_IMODE(info.st_mode)
    header.uid, header.gid = info.st_uid, info.st_gid
    header.mtime = info.st_mtime_ns // 1_000_000_000
    header.linkname = entry.link
    if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
        header.devmajor, header.devminor = os.major(info.st_rdev), os.minor(info.st_rdev)
    return header


def _pack_header(header: tarfile.TarInfo) -> bytes:
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _pack_file(entry: Entry, info: os.stat_result) -> Iterator[bytes]:
    header = _make_header(entry, info)
    assert header is not None
    descriptor = open_regular(entry.path)
    try:
        info = os.fstat(descriptor)
        start, ended = _read_start(descriptor, CHUNK)
        if not ended and info.st_size == 0:
            # Files of /proc have size 0.
            more, ended = _read_start(descriptor, _MAX_UNSIZED)
            if not ended:
                raise NotRegularError(
                    errno.EFBIG, f"more than {_MAX_UNSIZED >> 20} MiB in a file of unknown size"
                )
            start += more
        # Those of /sys have the size of a page and hold less.
        header.size = len(start) if ended else max(info.st_size, len(start))
        yield _pack_header(header)
        yield start
        yield from _read_rest(descriptor, header.size - len(start), -header.size % tarfile.BLOCKSIZE)
    finally:
        os.close(descriptor)


def _read_rest(descriptor: int, length: int, filling: int) -> Iterator[bytes]:
    """So many bytes and the zeros that fill the last block, whatever happens: the header is out already.

    OSError: in the end, when a part could not be read.
    """
    rest, problem = length, None
    while rest > 0:
        data = b""
        if problem is None:
            try:
                data = _read_some(descriptor, min(CHUNK, rest))
            except OSError as error:
                problem = error
        # Zeros for what can't be read, or is missing because the file was truncated meanwhile.
        data = data or bytes(min(CHUNK, rest))
        rest -= len(data)
        yield data
    yield bytes(filling)
    if problem is not None:
        raise problem


def _read_start(descriptor: int, limit: int) -> tuple[bytes, bool]:
    """Up to so many bytes, and whether the file ended with them."""
    pieces: list[bytes] = []
    length = 0
    while length < limit:
        data = _read_some(descriptor, min(CHUNK, limit - length))
        if not data:
            return b"".join(pieces), True
        pieces.append(data)
        length += len(data)
    return b"".join(pieces), False


def _read_some(descriptor: int, length: int) -> bytes:
    try:
        return os.read(descriptor, length)
    except BlockingIOError:
        return b""


def read_file(path: str) -> Generator[list[bytes]]:
    """The bytes of a regular file, some chunks at a time.

    OSError: as of ``open`` and ``read``; NotRegularError for anything but a regular file.
    """
    descriptor = open_regular(path)
    try:
        chunks = iter(partial(_read_some, descriptor, CHUNK), b"")
        while some := list(islice(chunks, _AHEAD)):
            yield some
    finally:
        os.close(descriptor)
