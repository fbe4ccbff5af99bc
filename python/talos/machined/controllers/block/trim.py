"""VolumeTrimController: unused blocks of filesystems are discarded from time to time."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.upkeep import find_slot
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.logging import Log
from talos.system.sizes import format_size

MAX_WAIT = 3600.0
"""Seconds after which the clock is looked at again: it may have been set."""
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
        self._due: dict[tuple[str, int], int] = {}

    async def run(self, runtime: ControllerRuntime) -> None:
        """Trim what is due, until cancelled; what was due while the node was off is left out."""
        wait = math.inf
        while True:
            with trio.move_on_after(wait):
                await runtime.wait_for_round()
            identity = await runtime.get_or_none(*ids.IDENTITY)
            volumes = await self._find(runtime) if identity is not None else {}
            node = identity.spec.node_id if identity is not None else ""
            await self._trim_due(node, volumes)
            await self._publish(runtime, volumes)
            seconds = [(due - self._clock()) / 1e9 for due in self._due.values()]
            wait = max(0.0, min(MAX_WAIT, *seconds)) if seconds else math.inf
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

    async def _trim_due(self, node: str, volumes: Mapping[str, Trimmed]) -> None:
        before, self._due = self._due, {}
        for name, volume in volumes.items():
            now, key = self._clock(), (name, volume.interval)
            due = before.get(key, math.inf)
            if due <= now and volume.target:
                await self._trim_one(name, volume.target)
            is_ahead = now < due <= now + volume.interval
            self._due[key] = int(due) if is_ahead else find_slot(node, name, volume.interval, self._clock())

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
                spec.next_trim.FromNanoseconds(self._due[name, volume.interval])
                await runtime.put(kinds.VOLUME_TRIM_SCHEDULE, name, spec)
