"""Files in the read-only /etc that must change: written in memory, shown by a bind mount each."""

import os
from pathlib import Path

from talos.system.mounts import Mounts

GENERATED = Path("/system/etc")
SHOWN = Path("/etc")
POD_RESOLVERS = Path("/system/resolved/resolv.conf")
"""What the kubelet gives to pods as their /etc/resolv.conf."""


def write_pod_resolvers(text: str, path: Path = POD_RESOLVERS) -> None:
    """Replace the resolvers of pods: a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


class EtcFiles:
    """Writes files under /system/etc and shows them in /etc."""

    def __init__(self, mounts: Mounts, generated: Path = GENERATED, shown: Path = SHOWN) -> None:
        self._mounts = mounts
        self._generated = generated
        self.shown = shown
        self._bound: set[str] = set()

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        """Set a file's content. In place: a bind mount shows one inode, not one name."""
        path = self._generated / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor
            # Shorter content leaves no moment in which the file is empty.
            data = text.encode()
            file.write(data)
            file.truncate(len(data))
        path.chmod(mode)
        if name not in self._bound:
            self._mounts.bind(str(path), str(self.shown / name), read_only=True)
            self._bound.add(name)
