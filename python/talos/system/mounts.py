"""Mounting, through a port."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, override

from talos.system import kernel
from talos.system.folders import opening_folder
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
"""Options of every writable mount; an omission carries its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPoint:
    """A mount to make. ``options`` are as in fstab; ``mode`` is that of a directory made for it.

    With ``guarded`` nothing can be added to that directory while nothing is mounted there: what was meant
    for a disk that has failed would else lie below it, unseen once the disk is back. A link in its place,
    which pods may have left, is removed.
    """

    source: str
    target: str
    type: str = ""
    options: tuple[str, ...] = HARDENED
    data: str = ""
    mode: int = 0o755
    guarded: bool = False


class Mounts(Protocol):
    """The mounts of this mount namespace."""

    def list(self) -> list[Mount]:
        """Every mount, oldest first."""
        ...

    def mount(self, point: MountPoint) -> None:
        """Make a mount and, where it can be made, its directory."""
        ...

    def bind(self, source: str, target: str, *, read_only: bool = False, private: bool = False) -> None:
        """Show a file or directory in another place, too.

        ``private``: what is mounted on the source afterwards does not appear there.
        """
        ...

    def unmount(self, target: str, *, lazy: bool = False) -> None:
        """Undo a mount; with ``lazy`` it vanishes now and ends with its last user."""
        ...

    def change_options(self, target: str, options: tuple[str, ...]) -> None:
        """Give the filesystem at this mount point these options, and no others."""
        ...

    def remount_read_only(self, target: str) -> None:
        """Let nothing more be written to the filesystem at this mount point."""
        ...


class KernelMounts(Mounts):
    """The mounts of the running system."""

    @override
    def list(self) -> list[Mount]:
        return parse_mounts(Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace"))

    @override
    def mount(self, point: MountPoint) -> None:
        flags = sum(_FLAGS[option] for option in point.options)
        if not point.guarded:
            Path(point.target).mkdir(mode=point.mode, parents=True, exist_ok=True)
            kernel.mount(point.source, point.target, point.type, flags, point.data)
            return
        # A pod that may write to the folder above could have its volume mounted where the system's files are.
        with opening_folder(Path(point.target), point.mode) as place:
            with suppress(OSError):  # not every filesystem has the flag
                kernel.set_immutable(point.target, immutable=True)
            kernel.mount(point.source, f"/proc/self/fd/{place}", point.type, flags, point.data)

    @override
    def bind(self, source: str, target: str, *, read_only: bool = False, private: bool = False) -> None:
        kernel.mount(source, target, flags=kernel.MS_BIND)
        if private:
            kernel.mount("none", target, flags=kernel.MS_PRIVATE)
        if read_only:
            kernel.set_read_only(target, read_only=True)

    @override
    def unmount(self, target: str, *, lazy: bool = False) -> None:
        kernel.umount(target, kernel.UMOUNT_NOFOLLOW | (kernel.MNT_DETACH if lazy else 0))

    @override
    def change_options(self, target: str, options: tuple[str, ...]) -> None:
        # Without any option for times the old one would stay.
        times = 0 if "noatime" in options else kernel.MS_RELATIME
        flags = sum(_FLAGS[option] for option in options)
        kernel.mount("none", target, flags=kernel.MS_REMOUNT | times | flags)

    @override
    def remount_read_only(self, target: str) -> None:
        kernel.mount("none", target, flags=kernel.MS_REMOUNT | kernel.MS_RDONLY)
