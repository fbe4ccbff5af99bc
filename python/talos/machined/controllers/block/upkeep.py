"""What the regular care of filesystems has in common: when it is due, of which volumes, and its schedule."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import override

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.upkeep import Slots
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVolume:
    """A volume that is cared for. ``interval`` in nanoseconds; no ``target`` while it can't be written to."""

    interval: int
    filesystem: enums.BlockFilesystemType
    target: str


class UpkeepController(Reconciler):
    """Cares for one filesystem at a time; what was due while the node was off is left out.

    ``clock`` has nanoseconds since 1970.
    """

    inputs = (Input(kinds.VOLUME_STATUS), Input(kinds.BLOCK_MOUNT_STATUS), Input(*ids.IDENTITY))

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self.clock = clock
        self.slots = Slots()

    def find_interval(self, spec: block_pb2.VolumeStatusSpec) -> int:
        """Nanoseconds between two times; 0 for a volume that is left alone."""
        raise NotImplementedError

    async def care(self, name: str, volume: KeptVolume) -> None:
        """Do what is due."""
        raise NotImplementedError

    async def publish(self, runtime: ControllerRuntime, volumes: Mapping[str, KeptVolume]) -> None:
        """Write the resources of these volumes; those of others are removed."""
        raise NotImplementedError

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        identity = await runtime.get_or_none(*ids.IDENTITY)
        volumes = await self._find(runtime) if identity is not None else {}
        node = identity.spec.node_id if identity is not None else ""
        intervals = {name: volume.interval for name, volume in volumes.items()}
        due = self.slots.find_due(intervals, self.clock())
        for name in due:
            if volumes[name].target:
                await self.care(name, volumes[name])
        self.slots.finish(due, intervals)
        self.slots.plan(node, intervals, self.clock())
        async with runtime.track_outputs():
            await self.publish(runtime, volumes)
        self.interval = self.slots.find_wait(self.clock())

    async def _find(self, runtime: ControllerRuntime) -> dict[str, KeptVolume]:
        listed = await runtime.list(kinds.BLOCK_MOUNT_STATUS)
        mounts = {mount.spec.spec.volume_id: mount.spec for mount in listed}
        found: dict[str, KeptVolume] = {}
        for volume in await runtime.list(kinds.VOLUME_STATUS):
            spec, mount = volume.spec, mounts.get(volume.id)
            interval = self.find_interval(spec)
            if not interval or spec.phase != enums.VOLUME_PHASE_READY:
                continue
            is_writable = mount is not None and not mount.read_only and not mount.detached
            found[volume.id] = KeptVolume(
                interval=interval,
                filesystem=spec.filesystem,
                target=mount.target if mount is not None and is_writable else "",
            )
        return found
