"""FSScrubController: the metadata of filesystems is checked from time to time."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.scrubber import Scrubber
from talos.disks.volumes.upkeep import Slots
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.logging import Log

SUCCESS = "success"
"""The status of a filesystem in which no damage was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """A volume that is checked. ``interval`` in nanoseconds; no ``target`` while it can't be."""

    interval: int
    filesystem: enums.BlockFilesystemType
    target: str


class FSScrubController(Controller):
    """VolumeStatus, MountStatus → FSScrubSchedule, FSScrubStatus.

    One filesystem at a time; ``clock`` has nanoseconds since 1970.
    """

    name = "block.FSScrubController"
    inputs = (Input(kinds.VOLUME_STATUS), Input(kinds.BLOCK_MOUNT_STATUS), Input(*ids.IDENTITY))
    outputs = (Output(kinds.FS_SCRUB_SCHEDULE), Output(kinds.FS_SCRUB_STATUS))

    def __init__(self, scrubber: Scrubber, log: Log, clock: Callable[[], int] = time.time_ns) -> None:
        self._scrubber, self._log, self._clock = scrubber, log, clock
        self._slots = Slots()
        self._results: dict[str, block_pb2.FSScrubStatusSpec] = {}

    async def run(self, runtime: ControllerRuntime) -> None:
        """Check what is due, until cancelled; what was due while the node was off is left out."""
        wait = math.inf
        while True:
            with trio.move_on_after(wait):
                await runtime.wait_for_round()
            identity = await runtime.get_or_none(*ids.IDENTITY)
            volumes = await self._find(runtime) if identity is not None else {}
            node = identity.spec.node_id if identity is not None else ""
            intervals = {name: volume.interval for name, volume in volumes.items()}
            for name in self._slots.find_due(intervals, self._clock()):
                if volumes[name].target:
                    await self._scrub(name, volumes[name])
            self._slots.plan(node, intervals, self._clock())
            self._results = {name: spec for name, spec in self._results.items() if name in volumes}
            await self._publish(runtime, volumes)
            wait = self._slots.find_wait(self._clock())
            runtime.reset_backoff()

    async def _find(self, runtime: ControllerRuntime) -> dict[str, Scrubbed]:
        listed = await runtime.list(kinds.BLOCK_MOUNT_STATUS)
        mounts = {mount.spec.spec.volume_id: mount.spec for mount in listed}
        found: dict[str, Scrubbed] = {}
        for volume in await runtime.list(kinds.VOLUME_STATUS):
            spec, mount = volume.spec, mounts.get(volume.id)
            has_scrubber = spec.filesystem == enums.FILESYSTEM_TYPE_XFS
            if not spec.scrub_enabled or not has_scrubber or spec.phase != enums.VOLUME_PHASE_READY:
                continue
            is_writable = mount is not None and not mount.read_only and not mount.detached
            found[volume.id] = Scrubbed(
                interval=spec.scrub_interval.ToNanoseconds(),
                filesystem=spec.filesystem,
                target=mount.target if mount is not None and is_writable else "",
            )
        return found

    async def _scrub(self, name: str, volume: Scrubbed) -> None:
        start = self._clock()
        try:
            findings = await self._scrubber.run(volume.target)
        except OSError as error:
            status = f"it can't be checked: {error.strerror}"
            self._log.once(f"volume {name}: {status}", level="warning")
        else:
            if findings is None:
                return
            status = str(findings) or SUCCESS
            if findings.count:
                self._log.error(f"volume {name}: its filesystem is damaged", findings=status)
            else:
                self._log.info("scrubbed volume", volume=name)
        result = block_pb2.FSScrubStatusSpec(mountpoint=volume.target, status=status)
        result.interval.FromNanoseconds(volume.interval)
        result.time.FromNanoseconds(start)
        result.duration.FromNanoseconds(max(0, self._clock() - start))
        self._results[name] = result

    async def _publish(self, runtime: ControllerRuntime, volumes: Mapping[str, Scrubbed]) -> None:
        async with runtime.track_outputs():
            for name, volume in volumes.items():
                spec = block_pb2.FSScrubScheduleSpec(filesystem=volume.filesystem)
                spec.interval.FromNanoseconds(volume.interval)
                spec.next_scrub.FromNanoseconds(self._slots.next(name, volume.interval))
                await runtime.put(kinds.FS_SCRUB_SCHEDULE, name, spec)
            for name, result in self._results.items():
                await runtime.put(kinds.FS_SCRUB_STATUS, name, result)
