"""Devices as sysfs shows them. Nothing here opens a device; a fake tree in a folder does for tests."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

_MAX_ATTRIBUTE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SysDevice:
    """A device: its folder below ``/sys`` as the kernel spells it, ``/devices/...``.

    Attributes are read on access. Two objects of one path are equal.
    """

    root: str = field(compare=False)
    path: str

    @property
    def folder(self) -> str:
        """Where the device's attributes are."""
        return self.root + self.path

    @property
    def kernel_name(self) -> str:
        """The folder's name, such as ``sda`` or ``0000:00:03.0``; ``!`` stands for a slash."""
        return self.path.rpartition("/")[2].replace("!", "/")

    @property
    def exists(self) -> bool:
        """Whether it is still there."""
        return os.path.exists(self.folder)  # noqa: PTH110 - done for every device

    @property
    def subsystem(self) -> str:
        """``block``, ``net``, ``pci``, ...; empty for folders that are no device."""
        return self._link("subsystem")

    @property
    def driver(self) -> str:
        """What drives it, if anything does."""
        return self._link("driver")

    @property
    def uevent(self) -> dict[str, str]:
        """The kernel's description in an event: DEVNAME, DEVTYPE, MAJOR, ..."""
        # Other ends of lines, by which Python would split, the kernel writes as they are, such as in names.
        lines = self.attribute("uevent").split("\n")
        return {key: value for key, _, value in (line.partition("=") for line in lines)}

    def has(self, name: str) -> bool:
        """Whether there is an attribute or folder of that name."""
        return os.path.exists(f"{self.folder}/{name}")  # noqa: PTH110 - done for every device

    def attribute(self, name: str) -> str:
        """An attribute's text without blanks at its end; empty when it can't be read.

        A link's text is its target's last part.
        """
        try:
            return self._read(name).decode(errors="replace").rstrip(" \n\t\0")
        except IsADirectoryError:
            return self._link(name)
        except OSError:
            return ""

    def binary(self, name: str) -> bytes:
        """An attribute's bytes; empty when it can't be read."""
        try:
            return self._read(name)
        except OSError:
            return b""

    def number(self, name: str, default: int = 0) -> int:
        """An attribute as a number, whatever its base."""
        try:
            return int(self.attribute(name), 0)
        except ValueError:
            return default

    def entries(self, name: str) -> list[str]:
        """Names in a folder of the device, sorted; none when there is no such folder."""
        try:
            return sorted(os.listdir(f"{self.folder}/{name}"))  # noqa: PTH208 - names are all we want
        except OSError:
            return []

    @property
    def parent(self) -> "SysDevice | None":
        """The nearest folder above that is a device."""
        path = self.path.rpartition("/")[0]
        while path.count("/") > 1:
            if os.path.exists(f"{self.root}{path}/uevent"):  # noqa: PTH110 - done for every device
                return SysDevice(root=self.root, path=path)
            path = path.rpartition("/")[0]
        return None

    @property
    def with_parents(self) -> Iterator["SysDevice"]:
        """The device, its parent, and so on."""
        device: SysDevice | None = self
        while device is not None:
            yield device
            device = device.parent

    def ancestor(self, subsystem: str, devtype: str = "") -> "SysDevice | None":
        """The nearest parent of a subsystem and, if given, a DEVTYPE."""
        for device in self.with_parents:
            if device == self or device.subsystem != subsystem:
                continue
            if not devtype or device.uevent.get("DEVTYPE") == devtype:
                return device
        return None

    def _read(self, name: str) -> bytes:
        # Without Python's file objects: at boot hundreds of attributes are read.
        descriptor = os.open(f"{self.folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _MAX_ATTRIBUTE)
        finally:
            os.close(descriptor)

    def _link(self, name: str) -> str:
        try:
            return os.readlink(f"{self.folder}/{name}").rpartition("/")[2]  # noqa: PTH115 - read often
        except OSError:
            return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sysfs:
    """The tree."""

    root: str = "/sys"

    def device(self, path: str) -> SysDevice:
        """The device of a path below the root; ``/devices/...`` as events have it."""
        return SysDevice(root=self.root, path=path)

    def listing(self, folder: str) -> list[SysDevice]:
        """Devices that a folder of links leads to, such as ``class/net``; in the order of their names."""
        where = f"{self.root}/{folder}"
        try:
            names = sorted(os.listdir(where))  # noqa: PTH208 - names are all we want
        except OSError:
            return []
        found = [self._follow(f"{where}/{name}") for name in names]
        return [self.device(path) for path in found if path]

    def by_numbers(self, kind: str) -> list[SysDevice]:
        """All devices with a node; ``kind`` is ``block`` or ``char``."""
        return self.listing(f"dev/{kind}")

    def everything(self) -> list[SysDevice]:
        """Every device that belongs to a class or a bus."""
        folders = [f"class/{name}" for name in self._names("class")]
        folders += [f"bus/{name}/devices" for name in self._names("bus")]
        found = {device.path: device for folder in folders for device in self.listing(folder)}
        return [found[path] for path in sorted(found)]

    def member(self, subsystem: str, name: str) -> SysDevice | None:
        """A device of a class by its name."""
        path = self._follow(f"{self.root}/class/{subsystem}/{name}")
        return self.device(path) if path else None

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(f"{self.root}/{folder}"))  # noqa: PTH208 - names are all we want
        except OSError:
            return []

    def _follow(self, link: str) -> str:
        """The path below the root that a link leads to; empty when it leads nowhere in ``/devices``."""
        try:
            target = os.readlink(link)  # noqa: PTH115 - done for every device at boot
        except OSError:
            return ""
        _, found, path = target.partition("/devices/")
        return f"/devices/{path}" if found else ""
