"""FSScrubController: the metadata of filesystems is checked from time to time."""

import time
from collections.abc import Callable, Mapping
from typing import override

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.scrubber import Scrubber
from talos.machined.controllers.block.schedule import ScheduleController, ScheduledVolume
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output
from talos.system.logging import Log

SUCCESS = "success"
"""The status of a filesystem in which no damage was found."""


class FSScrubController(ScheduleController):
    """VolumeStatus, MountStatus → FSScrubSchedule, FSScrubStatus."""

    name = "block.FSScrubController"
    outputs = (Output(kinds.FS_SCRUB_SCHEDULE), Output(kinds.FS_SCRUB_STATUS))

    def __init__(self, scrubber: Scrubber, log: Log, clock: Callable[[], int] = time.time_ns) -> None:
        super().__init__(clock)
        self._scrubber, self._log = scrubber, log
        self._results: dict[str, block_pb2.FSScrubStatusSpec] = {}

    @override
    def find_interval(self, spec: block_pb2.VolumeStatusSpec) -> int:
        has_scrubber = spec.filesystem == enums.FILESYSTEM_TYPE_XFS
        return spec.scrub_interval.ToNanoseconds() if spec.scrub_enabled and has_scrubber else 0

    @override
    async def run_task(self, name: str, volume: ScheduledVolume) -> None:
        start = self.clock()
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
        result.duration.FromNanoseconds(max(0, self.clock() - start))
        self._results[name] = result

    @override
    async def publish(self, runtime: ControllerRuntime, volumes: Mapping[str, ScheduledVolume]) -> None:
        self._results = {name: spec for name, spec in self._results.items() if name in volumes}
        for name, volume in volumes.items():
            spec = block_pb2.FSScrubScheduleSpec(filesystem=volume.filesystem)
            spec.interval.FromNanoseconds(volume.interval)
            spec.next_scrub.FromNanoseconds(self.schedule.next(name, volume.interval))
            await runtime.put(kinds.FS_SCRUB_SCHEDULE, name, spec)
        for name, result in self._results.items():
            await runtime.put(kinds.FS_SCRUB_STATUS, name, result)
