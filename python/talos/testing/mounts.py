"""Mounts in memory."""

from dataclasses import dataclass, field, replace
from typing import override

from talos.system.mounts import MountPoint, Mounts
from talos.system.proc.mounts import Mount


@dataclass(slots=True)
class MemoryMounts(Mounts):
    """Remembers what was mounted; mounts in ``busy`` can't be unmounted."""

    mounts: list[Mount] = field(default_factory=list[Mount])
    busy: set[str] = field(default_factory=set[str])

    @override
    def list(self) -> list[Mount]:
        return [*self.mounts]

    @override
    def mount(self, point: MountPoint) -> None:
        """Remember a mount."""
        self.mounts.append(
            Mount(source=point.source, target=point.target, type=point.type, options=point.options)
        )

    @override
    def bind(self, source: str, target: str, *, read_only: bool = False, private: bool = False) -> None:
        """Remember a bind mount."""
        del private
        options = ("bind", "ro") if read_only else ("bind",)
        self.mounts.append(Mount(source=source, target=target, type="", options=options))

    @override
    def unmount(self, target: str, *, lazy: bool = False) -> None:
        """Forget the newest mount at a place; EBUSY when it is busy, unless lazy."""
        if target in self.busy and not lazy:
            raise OSError(16, "Device or resource busy", target)
        for index in range(len(self.mounts) - 1, -1, -1):
            if self.mounts[index].target == target:
                del self.mounts[index]
                return
        raise OSError(22, "Invalid argument", target)

    @override
    def change_options(self, target: str, options: tuple[str, ...]) -> None:
        """Give the newest mount at a place other options; EBUSY when it is busy."""
        if target in self.busy:
            raise OSError(16, "Device or resource busy", target)
        index = max(index for index, mount in enumerate(self.mounts) if mount.target == target)
        self.mounts[index] = replace(self.mounts[index], options=options)

    @override
    def remount_read_only(self, target: str) -> None:
        """Mark the mounts at a place as read-only."""
        for index, mount in enumerate(self.mounts):
            if mount.target == target:
                self.mounts[index] = Mount(
                    source=mount.source, target=target, type=mount.type, options=(*mount.options, "ro")
                )
