"""Reading the kernel's files (/proc, /sys, /etc) through a port, so that tests can bring their own."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """Small files, read whole. Missing files raise FileNotFoundError, as ``open`` does."""

    def read(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 are replaced."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The bytes of a file."""
        ...

    def read_link(self, path: str) -> str:
        """Where a symbolic link points."""
        ...

    def list(self, path: str) -> Sequence[str]:
        """The names in a directory, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is something of this name, links followed."""
        ...


class KernelFiles:
    """The files of the running system."""

    def read(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 are replaced."""
        return self.read_bytes(path).decode(errors="replace")

    def read_bytes(self, path: str) -> bytes:
        """The bytes of a file."""
        return Path(path).read_bytes()

    def read_link(self, path: str) -> str:
        """Where a symbolic link points."""
        return str(Path(path).readlink())

    def list(self, path: str) -> Sequence[str]:
        """The names in a directory, sorted."""
        return sorted(os.listdir(path))  # noqa: PTH208 - /proc is listed often, names are enough

    def exists(self, path: str) -> bool:
        """Whether there is something of this name, links followed."""
        return Path(path).exists()
