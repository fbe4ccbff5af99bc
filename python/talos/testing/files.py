"""The kernel's files in memory."""

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath


class MemoryFiles:
    """A mapping of absolute paths to contents, and one of links."""

    def __init__(self, contents: Mapping[str, str | bytes], links: Mapping[str, str] | None = None) -> None:
        self.contents = dict(contents)
        self.links = dict(links or {})

    def read(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 are replaced."""
        return self.read_bytes(path).decode(errors="replace")

    def read_bytes(self, path: str) -> bytes:
        """The bytes of a file."""
        content = self.contents.get(self.links.get(path, path))
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return content.encode() if isinstance(content, str) else content

    def read_link(self, path: str) -> str:
        """Where a symbolic link points."""
        try:
            return self.links[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def list(self, path: str) -> Sequence[str]:
        """The names in a directory, sorted."""
        parent = PurePosixPath(path)
        names = {
            PurePosixPath(name).relative_to(parent).parts[0]
            for name in (*self.contents, *self.links)
            if PurePosixPath(name) != parent and PurePosixPath(name).is_relative_to(parent)
        }
        if not names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted(names)

    def exists(self, path: str) -> bool:
        """Whether there is something of this name, links followed."""
        target = self.links.get(path, path)
        return any(PurePosixPath(name).is_relative_to(target) for name in self.contents)
