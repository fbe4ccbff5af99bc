"""Paths in requests: validation, and errors in the form of the API."""

import errno
import os
import stat

from talos.api.rpc import Code, RpcError
from talos.system.errors import lower_first

_CODES = {
    errno.ENOENT: Code.NOT_FOUND,
    errno.ENOTDIR: Code.NOT_FOUND,
    errno.ELOOP: Code.INVALID_ARGUMENT,
    errno.EINVAL: Code.INVALID_ARGUMENT,
    errno.ENAMETOOLONG: Code.INVALID_ARGUMENT,
    errno.EACCES: Code.PERMISSION_DENIED,
    errno.EPERM: Code.PERMISSION_DENIED,
}

_ENDLESS = 1 << 46
"""Bytes. No file system in use holds such a file; /proc/kcore, the address space, claims 2^47 and more."""


def check_path(path: str) -> str:
    """An absolute path without ``.``, ``..`` and double slashes; nothing given means the root.

    RpcError: INVALID_ARGUMENT when it is relative or no path at all.
    """
    if "\0" in path:
        raise RpcError(Code.INVALID_ARGUMENT, f"path is not valid, it holds a zero byte: {path!r}")
    if path and not path.startswith("/"):
        raise RpcError(Code.INVALID_ARGUMENT, f'path is not absolute "{path}", use "/{path}"')
    return os.path.normpath(f"/{path.lstrip('/')}")


def resolve(path: str, *, verb: str = "stat") -> str:
    """The path with its symbolic links followed; ``verb`` is the call that an error names.

    RpcError: NOT_FOUND, or INVALID_ARGUMENT for a loop of links.
    """
    try:
        return os.path.realpath(path, strict=True)
    except OSError as error:
        raise make_error(verb, path, error) from None


def make_error(verb: str, path: str, error: OSError) -> RpcError:
    """The API's error for an OSError about a path."""
    code = _CODES.get(error.errno or 0, Code.UNKNOWN)
    return RpcError(code, describe(verb, path, error))


def describe(verb: str, path: str, error: OSError) -> str:
    """One line in upstream's form, ``open /x: no such file or directory``."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{verb} {make_text(path)}: {lower_first(text)}"


def make_text(name: str) -> str:
    """A file name as valid UTF-8, which protobuf requires; other bytes are replaced."""
    return os.fsencode(name).decode(errors="replace")


def open_regular(path: str) -> int:
    """A descriptor to read a regular file from.

    Nothing else is ever opened: opening a device can set it to work, opening a pipe can wait
    without end. Files of the kernel that would block raise EAGAIN instead.

    OSError: as of ``open``; of EINVAL when it is no regular file, or one without an end.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        info = os.fstat(place)
        if not stat.S_ISREG(info.st_mode) or info.st_size >= _ENDLESS:
            raise NotRegularError(errno.EINVAL, "not a regular file", path)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(place)


class NotRegularError(OSError):
    """A directory, device, pipe, socket, or a file without an end."""
