"""A part of a file that another one writes, rotates or replaces meanwhile."""

import os
import stat
from pathlib import Path


def read_regular(path: Path, offset: int, size: int, *, inode: int = 0) -> bytes | None:
    """At most ``size`` bytes from ``offset`` on; None when there is no such file, or another by that name.

    The ``inode`` is that of the file that is meant, 0 for any. Symbolic links aren't followed, and nothing is
    waited for, such as the other end of a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (inode and status.st_ino != inode):
            return None
        return os.pread(descriptor, size, offset)
    except OSError:
        return None
    finally:
        os.close(descriptor)
