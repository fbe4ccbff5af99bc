"""Files on EFI, whose filesystem has no log: a file takes the place of another as firmware sees it."""

import os
from pathlib import Path

from talos.system.files import flush_folder


def take_name(new: Path, path: Path) -> None:
    """Give a file the name of another, whose sectors are free only when the names are on the disk.

    vfat frees them when no process has the file open any more.
    """
    old = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path.exists() else -1
    try:
        descriptor = os.open(new, os.O_RDWR | os.O_CLOEXEC)
        try:
            new.rename(path)
            os.fsync(descriptor)  # its entry
        finally:
            os.close(descriptor)
        flush_folder(path.parent)
    finally:
        if old >= 0:
            os.close(old)
