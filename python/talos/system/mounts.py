"""Mounting, through a port."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from talos.system import kernel
from talos.system.proc.mounts import Mount, parse_mounts

_FLAGS = {
    "bind": kernel.MS_BIND,
    "noatime": kernel.MS_NOATIME,
    "nodev": kernel.MS_NODEV,
    "noexec": kernel.MS_NOEXEC,
    "nosuid": kernel.MS_NOSUID,
    "ro": kernel.MS_RDONLY,
}
HARDENED = ("nosuid", "nodev", "noexec")
"""Options of every writable mount; who leaves one out says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPoint:
    """A mount to make. ``options`` are as in fstab; ``mode`` is that of a directory made for it."""

    source: str
    target: str
    type: str = ""
    options: tuple[str, ...] = HARDENED
    data: str = ""
    mode: int = 0o755


class Mounts(Protocol):
    """The mounts of this mount namespace."""

    def list(self) -> list[Mount]:
        """Every mount, oldest first."""
        ...

    def mount(self, point: MountPoint) -> None:
        """Make a mount and, where it can be made, its directory."""
        ...

    def bind(self, source: str, target: str, *, read_only: bool = False) -> None:
        """Show a file or directory in another place, too."""
        ...

    def unmount(self, target: str, *, lazy: bool = False) -> None:
        """Undo a mount; with ``lazy`` it vanishes now and ends when nobody uses it."""
        ...

    def remount_read_only(self, target: str) -> None:
        """Let nothing more be written to the filesystem at this mount point."""
        ...


class KernelMounts:
    """The mounts of the running system."""

    def list(self) -> list[Mount]:
        """Every mount, oldest first."""
        return parse_mounts(Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace"))

    def mount(self, point: MountPoint) -> None:
        """Make a mount and, where it can be made, its directory."""
        Path(point.target).mkdir(mode=point.mode, parents=True, exist_ok=True)
        flags = sum(_FLAGS[option] for option in point.options)
        kernel.mount(point.source, point.target, point.type, flags, point.data)

    def bind(self, source: str, target: str, *, read_only: bool = False) -> None:
        """Show a file or directory in another place, too."""
        kernel.mount(source, target, flags=kernel.MS_BIND)
        if read_only:
            kernel.set_read_only(target, read_only=True)

    def unmount(self, target: str, *, lazy: bool = False) -> None:
        """Undo a mount; with ``lazy`` it vanishes now and ends when nobody uses it."""
        kernel.umount(target, kernel.UMOUNT_NOFOLLOW | (kernel.MNT_DETACH if lazy else 0))

    def remount_read_only(self, target: str) -> None:
        """Let nothing more be written to the filesystem at this mount point."""
        kernel.mount("none", target, flags=kernel.MS_REMOUNT | kernel.MS_RDONLY)


@dataclass(slots=True)
class MemoryMounts:
    """The twin for tests: remembers what was mounted; mounts in ``busy`` can't be unmounted."""

    mounts: list[Mount] = field(default_factory=list[Mount])
    busy: set[str] = field(default_factory=set[str])

    def list(self) -> list[Mount]:
        """Every mount, oldest first."""
        return [*self.mounts]

    def mount(self, point: MountPoint) -> None:
        """Remember a mount."""
        self.mounts.append(
            Mount(source=point.source, target=point.target, type=point.type, options=point.options)
        )

    def bind(self, source: str, target: str, *, read_only: bool = False) -> None:
        """Remember a bind mount."""
        options = ("bind", "ro") if read_only else ("bind",)
        self.mounts.append(Mount(source=source, target=target, type="", options=options))

    def unmount(self, target: str, *, lazy: bool = False) -> None:
        """Forget the newest mount at a place; EBUSY when it is busy, unless lazy."""
        if target in self.busy and not lazy:
            raise OSError(16, "Device or resource busy", target)
        for index in range(len(self.mounts) - 1, -1, -1):
            if self.mounts[index].target == target:
                del self.mounts[index]
                return
        raise OSError(22, "Invalid argument", target)

    def remount_read_only(self, target: str) -> None:
        """Mark the mounts at a place as read-only."""
        for index, mount in enumerate(self.mounts):
            if mount.target == target:
                self.mounts[index] = Mount(
                    source=mount.source, target=target, type=mount.type, options=(*mount.options, "ro")
                )
