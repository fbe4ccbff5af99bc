"""VolumeTrimController: unused blocks of filesystems are discarded from time to time."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.upkeep import Slots
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.logging import Log
from talos.system.sizes import format_size

_TRIMMABLE = frozenset({enums.FILESYSTEM_TYPE_XFS, enums.FILESYSTEM_TYPE_EXT4, enums.FILESYSTEM_TYPE_BTRFS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """A volume that is trimmed. ``interval`` in nanoseconds; no ``target`` while it can't be written to."""

    interval: int
    filesystem: enums.BlockFilesystemType
    target: str


class VolumeTrimController(Controller):
    """VolumeStatus, MountStatus → VolumeTrimSchedule.

    ``trim`` is given a mount point, and returns bytes; ``clock`` has nanoseconds since 1970.
    """

    name = "block.VolumeTrimController"
    inputs = (Input(kinds.VOLUME_STATUS), Input(kinds.BLOCK_MOUNT_STATUS), Input(*ids.IDENTITY))
    outputs = (Output(kinds.VOLUME_TRIM_SCHEDULE),)

    def __init__(self, trim: Callable[[str], int], log: Log, clock: Callable[[], int] = time.time_ns) -> None:
        self._trim, self._log, self._clock = trim, log, clock
        self._slots = Slots()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Trim what is due, until cancelled; what was due while the node was off is left out."""
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
                    await self._trim_one(name, volumes[name].target)
            self._slots.plan(node, intervals, self._clock())
            await self._publish(runtime, volumes)
            wait = self._slots.find_wait(self._clock())
            runtime.reset_backoff()

    async def _find(self, runtime: ControllerRuntime) -> dict[str, Trimmed]:
        listed = await runtime.list(kinds.BLOCK_MOUNT_STATUS)
        mounts = {mount.spec.spec.volume_id: mount.spec for mount in listed}
        found: dict[str, Trimmed] = {}
        for volume in await runtime.list(kinds.VOLUME_STATUS):
            spec, mount = volume.spec, mounts.get(volume.id)
            is_hidden = spec.encryption_provider and not spec.encryption_allow_discards
            has_trim = spec.trim_enabled and spec.filesystem in _TRIMMABLE
            if not has_trim or is_hidden or spec.phase != enums.VOLUME_PHASE_READY:
                continue
            is_writable = mount is not None and not mount.read_only and not mount.detached
            found[volume.id] = Trimmed(
                interval=spec.trim_interval.ToNanoseconds(),
                filesystem=spec.filesystem,
                target=mount.target if mount is not None and is_writable else "",
            )
        return found

    async def _trim_one(self, name: str, target: str) -> None:
        try:
            size = await trio.to_thread.run_sync(self._trim, target)
        except OSError as error:
            self._log.once(f"volume {name}: can't be trimmed", level="warning", reason=error.strerror)
            return
        self._log.info("trimmed volume", volume=name, discarded=format_size(size))

    async def _publish(self, runtime: ControllerRuntime, volumes: Mapping[str, Trimmed]) -> None:
        async with runtime.track_outputs():
            for name, volume in volumes.items():
                spec = block_pb2.VolumeTrimScheduleSpec(filesystem=volume.filesystem)
                spec.interval.FromNanoseconds(volume.interval)
                spec.next_trim.FromNanoseconds(self._slots.next(name, volume.interval))
                await runtime.put(kinds.VOLUME_TRIM_SCHEDULE, name, spec)
