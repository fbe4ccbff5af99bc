"""Files of a volume that is attached to provide the machine config."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.config.read.tree import MAX_BYTES
from talos.machined.platform.config_sources.web import TOTAL_TIMEOUT, Report
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.resource.state import State
from talos.system.errors import UserError
from talos.system.mounts import MountPoint, Mounts

FILESYSTEMS = ("iso9660", "vfat", "ext4")
DEVICES_TIMEOUT = 60.0
"""Seconds to wait for the initial scan of all devices."""
OPTIONS = ("ro", "nosuid", "nodev", "noexec")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSource:
    """How a volume is found and read."""

    state: State
    mounts: Mounts
    report: Report
    place: Path = Path("/system/run/config-volume")

    async def load(
        self, label: str, names: Sequence[str], filesystems: Sequence[str] = FILESYSTEMS
    ) -> dict[str, bytes]:
        """The files that are there of those named, of the volume with this label in either case.

        An empty label is any. Waits for the volume; empty when it does not come.
        """
        volume = await self._find_attached(label, filesystems)
        if volume is None:
            kind = f"with the label {label}" if label else f"of {' or '.join(filesystems)}"
            self.report(f"there is no volume {kind} yet")
            with trio.move_on_after(TOTAL_TIMEOUT):
                volume = await self._wait(label, filesystems)
        if volume is None:
            return {}
        return await trio.to_thread.run_sync(self._read, volume, tuple(names))

    async def load_attached(self, label: str, names: Sequence[str]) -> dict[str, bytes] | None:
        """The same of a volume that is there after the initial scan of devices; None when there is none."""
        volume = await self._find_attached(label, FILESYSTEMS)
        if volume is None:
            return None
        return await trio.to_thread.run_sync(self._read, volume, tuple(names))

    async def _find_attached(self, label: str, filesystems: Sequence[str]) -> DiscoveredVolumeSpec | None:
        with trio.move_on_after(DEVICES_TIMEOUT):
            await wait_for(self.state, *ids.DEVICES_STATUS, lambda one: one.spec.ready)
        return await self._find(label, filesystems)

    async def _wait(self, label: str, filesystems: Sequence[str]) -> DiscoveredVolumeSpec:
        while True:
            async with self.state.watch(kinds.DISCOVERED_VOLUME) as changes:
                if volume := await self._find(label, filesystems):
                    return volume
                async for _ in changes:
                    if volume := await self._find(label, filesystems):
                        return volume

    async def _find(self, label: str, filesystems: Sequence[str]) -> DiscoveredVolumeSpec | None:
        for one in await self.state.list(kinds.DISCOVERED_VOLUME):
            if label.lower() in {"", one.spec.label.lower()} and one.spec.name in filesystems:
                return one.spec
        return None

    def _read(self, volume: DiscoveredVolumeSpec, names: Sequence[str]) -> dict[str, bytes]:
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = tempfile.mkdtemp(dir=self.place)
        try:
            self.mounts.mount(
                MountPoint(source=volume.dev_path, target=target, type=volume.name, options=OPTIONS)
            )
        except OSError as error:
            raise UserError(f"can't be mounted: {error.strerror}", where=volume.dev_path) from None
        try:
            return {name: data for name in names if (data := _read_file(target, name)) is not None}
        finally:
            self.mounts.unmount(target)
            Path(target).rmdir()


def _read_file(folder: str, name: str) -> bytes | None:
    path = Path(folder, name)
    try:
        # A symbolic link on the volume could lead to what is elsewhere on the machine.
        if path.resolve() != Path(folder).resolve() / name or not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=path.name) from None
    if len(data) > MAX_BYTES:
        raise UserError(f"it has more than {MAX_BYTES} bytes", where=path.name)
    return data
