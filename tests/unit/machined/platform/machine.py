"""A machine with a volume that may be attached, and with network cards."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Any

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.machined.platform.clouds.cloud import Source
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts


@dataclass
class Volumes(MemoryMounts):
    """Mounts that show files."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def mount(self, point: MountPoint) -> None:
        super().mount(point)
        assert "ro" in point.options
        for name, data in self.files.items():
            path = Path(point.target, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def unmount(self, target: str, *, lazy: bool = False) -> None:
        super().unmount(target, lazy=lazy)
        rmtree(target)
        Path(target).mkdir()


@dataclass
class Machine:
    """The State of a machine, and the files of its volume."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    state: MemoryState = field(default_factory=MemoryState)

    @cached_property
    def mounts(self) -> Volumes:
        """Where volumes are mounted."""
        return Volumes(files=self.files)

    def place_volume(self, source: Source) -> Source:
        """The same source, which mounts its volume in the test's folder."""
        return replace(source, volume=replace(source.volume, place=self.folder / "place"))

    async def attach(self, label: str, filesystem: str = "iso9660") -> None:
        """Attach the volume."""

        def change(spec: Any) -> None:
            spec.label, spec.name, spec.dev_path = label, filesystem, "/dev/sr0"

        await modify(self.state, kinds.DISCOVERED_VOLUME, "sr0", change)
        await modify(self.state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))

    async def show_card(self, name: str, last: int, *, permanent: int = 0) -> None:
        """Make a network card known, with the last byte of its addresses."""

        def change(spec: LinkStatusSpec) -> None:
            spec.type, spec.index = enums.LINK_ETHER, last
            spec.hardware_addr = bytes((2, 0, 0, 0, 0, last))
            if permanent:
                spec.permanent_addr = bytes((2, 0, 0, 0, 0, permanent))

        await modify(self.state, kinds.LINK_STATUS, name, change)
