"""What trims and checks of filesystems have in common: which volumes are due, and the published schedule."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import override

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.schedule import Schedule
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledVolume:
    """A volume with a schedule. ``interval`` in nanoseconds; no ``target`` while it can't be written to."""

    interval: int
    filesystem: enums.BlockFilesystemType
    target: str


class ScheduleController(Reconciler):
    """Runs its task for one filesystem at a time; what was due while the node was off is left out.

    ``clock`` has nanoseconds since 1970.
    """

    inputs = (Input(kinds.VOLUME_STATUS), Input(kinds.BLOCK_MOUNT_STATUS), Input(*ids.IDENTITY))

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self.clock = clock
        self.schedule = Schedule()

    def find_interval(self, spec: block_pb2.VolumeStatusSpec) -> int:
        """Nanoseconds between two runs; 0 for a volume without any."""
        raise NotImplementedError

    async def run_task(self, name: str, volume: ScheduledVolume) -> None:
        """Trim or check a volume that is due."""
        raise NotImplementedError

    async def publish(self, runtime: ControllerRuntime, volumes: Mapping[str, ScheduledVolume]) -> None:
        """Write the resources of these volumes; those of others are removed."""
        raise NotImplementedError

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        identity = await runtime.get_or_none(*ids.IDENTITY)
        volumes = await self._find(runtime) if identity is not None else {}
        node = identity.spec.node_id if identity is not None else ""
        intervals = {name: volume.interval for name, volume in volumes.items()}
        due = self.schedule.find_due(intervals, self.clock())
        for name in due:
            if volumes[name].target:
                await self.run_task(name, volumes[name])
        self.schedule.finish(due, intervals)
        self.schedule.plan(node, intervals, self.clock())
        async with runtime.track_outputs():
            await self.publish(runtime, volumes)
        self.interval = self.schedule.find_wait(self.clock())

    async def _find(self, runtime: ControllerRuntime) -> dict[str, ScheduledVolume]:
        listed = await runtime.list(kinds.BLOCK_MOUNT_STATUS)
        mounts = {mount.spec.spec.volume_id: mount.spec for mount in listed}
        found: dict[str, ScheduledVolume] = {}
        for volume in await runtime.list(kinds.VOLUME_STATUS):
            spec, mount = volume.spec, mounts.get(volume.id)
            interval = self.find_interval(spec)
            if not interval or spec.phase != enums.VOLUME_PHASE_READY:
                continue
            is_writable = mount is not None and not mount.read_only and not mount.detached
            found[volume.id] = ScheduledVolume(
                interval=interval,
                filesystem=spec.filesystem,
                target=mount.target if mount is not None and is_writable else "",
            )
        return found
