"""VolumeTrimController: unused blocks of filesystems are discarded from time to time."""

import time
from collections.abc import Callable, Mapping
from typing import override

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.machined.controllers.block.schedule import ScheduleController, ScheduledVolume
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output
from talos.system.logging import Log
from talos.system.sizes import format_size

_TRIMMABLE = frozenset({enums.FILESYSTEM_TYPE_XFS, enums.FILESYSTEM_TYPE_EXT4, enums.FILESYSTEM_TYPE_BTRFS})


class VolumeTrimController(ScheduleController):
    """VolumeStatus, MountStatus → VolumeTrimSchedule; ``trim`` is given a mount point, and returns bytes."""

    name = "block.VolumeTrimController"
    outputs = (Output(kinds.VOLUME_TRIM_SCHEDULE),)

    def __init__(self, trim: Callable[[str], int], log: Log, clock: Callable[[], int] = time.time_ns) -> None:
        super().__init__(clock)
        self._trim, self._log = trim, log

    @override
    def find_interval(self, spec: block_pb2.VolumeStatusSpec) -> int:
        is_hidden = spec.encryption_provider and not spec.encryption_allow_discards
        has_trim = spec.trim_enabled and spec.filesystem in _TRIMMABLE and not is_hidden
        return spec.trim_interval.ToNanoseconds() if has_trim else 0

    @override
    async def run_task(self, name: str, volume: ScheduledVolume) -> None:
        try:
            size = await trio.to_thread.run_sync(self._trim, volume.target)
        except OSError as error:
            self._log.once(f"volume {name}: can't be trimmed", level="warning", reason=error.strerror)
            return
        self._log.info("trimmed volume", volume=name, discarded=format_size(size))

    @override
    async def publish(self, runtime: ControllerRuntime, volumes: Mapping[str, ScheduledVolume]) -> None:
        for name, volume in volumes.items():
            spec = block_pb2.VolumeTrimScheduleSpec(filesystem=volume.filesystem)
            spec.interval.FromNanoseconds(volume.interval)
            spec.next_trim.FromNanoseconds(self.schedule.next(name, volume.interval))
            await runtime.put(kinds.VOLUME_TRIM_SCHEDULE, name, spec)
