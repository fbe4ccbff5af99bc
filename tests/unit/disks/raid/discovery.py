"""udevd's discovery, of arrays in memory."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from tests.unit.disks.raid.memory_mdadm import MemoryMdadm

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec, DiscoveryRefreshStatusSpec, DiskSpec
from talos.disks.raid.early import EarlyArrays
from talos.disks.raid.start import ArrayStarter
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log


@dataclass
class Discovery:
    """What udevd writes, again after each request: an array's ``label`` as soon as it was opened once."""

    memory: MemoryMdadm
    members: tuple[str, ...]
    label: str
    state: MemoryState = field(default_factory=MemoryState)
    _opened: set[str] = field(default_factory=set[str])

    @property
    def arrays(self) -> EarlyArrays:
        starter = ArrayStarter(self.memory.mdadm, self.memory.read_arrays, Log(write=lambda _: None))
        return EarlyArrays(self.state, starter, self.memory.read_head)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        for volume in self.memory.discover(*self.members):
            await put(self.state, kinds.DISCOVERED_VOLUME, volume.id, volume.spec)
            await self.add_disk(volume.id)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow)
            yield
            nursery.cancel_scope.cancel()

    async def add_disk(self, name: str) -> None:
        """A disk."""
        await put(self.state, kinds.DISK, name, DiskSpec(dev_path=f"/dev/{name}"))

    async def add_part(self, disk: str, label: str) -> None:
        """A partition on a disk, which holds what one of this label does."""
        spec = DiscoveredVolumeSpec(
            partition_label=label,
            name="talosmeta" if label == "META" else "xfs",
            parent=disk,
            parent_dev_path=f"/dev/{disk}",
        )
        await put(self.state, kinds.DISCOVERED_VOLUME, f"{disk}p1", spec)

    async def _follow(self) -> None:
        async with self.state.watch(*ids.DISCOVERY_REFRESH_REQUEST) as events:
            async for batch in events:
                written = batch[-1].resource
                for array in self.memory.arrays:
                    name = array.device.removeprefix("/dev/")
                    members = [member.device.removeprefix("/dev/") for member in array.members]
                    spec = DiskSpec(dev_path=array.device, secondary_disks=members)
                    await put(self.state, kinds.DISK, name, spec)
                    if name in self._opened:
                        await self.add_part(name, self.label)
                    self._opened.add(name)
                request = written.spec.request if written else 0
                status = DiscoveryRefreshStatusSpec(request=request)
                await put(self.state, *ids.DISCOVERY_REFRESH_STATUS, status)
