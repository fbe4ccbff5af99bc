"""Requests for volume mounts, and waiting for them."""

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.devices import are_devices_ready
from talos.disks.volumes.dedicated import is_dedicated
from talos.resource import ids, kinds
from talos.resource.changes import modify, teardown_and_destroy, wait_for
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, State
from talos.system.block.layout import META
from talos.system.logging import Log

REQUESTER = "sequencer"
REPORT_INTERVAL = 15.0
"""Seconds between two lines that name what is waited for."""
FINISH_TIMEOUT = 30.0
"""Seconds in which volumes have to be unmounted at the end."""
_STOPPED = frozenset({enums.MD_ARRAY_PHASE_WAITING, enums.MD_ARRAY_PHASE_ERROR})
_SETTLED = frozenset({enums.VOLUME_PHASE_READY, enums.VOLUME_PHASE_MISSING, enums.VOLUME_PHASE_FAILED})


async def create_lifecycle(state: State) -> None:
    """Create the resource that permits mounting volumes."""
    await modify(state, *ids.VOLUME_LIFECYCLE, lambda _: None)


async def end_lifecycle(state: State, log: Log) -> None:
    """Request that every volume is unmounted, and wait up to a limit."""
    with trio.move_on_after(FINISH_TIMEOUT) as scope:
        try:
            await teardown_and_destroy(state, *ids.VOLUME_LIFECYCLE)
        except NotFoundError:
            return
    if scope.cancelled_caught:
        log.warning(f"volumes are not unmounted after {FINISH_TIMEOUT:.0f} s")


async def request_mount(state: State, volume: str) -> None:
    """Request the mount of a volume."""

    def change(spec: block_pb2.VolumeMountRequestSpec) -> None:
        spec.volume_id = volume
        spec.requester = REQUESTER

    await modify(state, kinds.VOLUME_MOUNT_REQUEST, name_request(volume), change)


def name_request(volume: str) -> str:
    """The id of PID 1's request for a volume, and of its status."""
    return f"{REQUESTER}-{volume}"


async def is_mounted(state: State, volume: str) -> bool:
    """Whether PID 1's request for a volume is fulfilled."""
    try:
        await state.get(kinds.VOLUME_MOUNT_STATUS, name_request(volume))
    except NotFoundError:
        return False
    return True


async def wait_for_meta(state: State) -> None:
    """Wait until META is read, or known to be absent."""
    await wait_for(state, *ids.META_LOAD, lambda load: load.spec.done)


async def explain_meta(state: State) -> str:
    """Why it is not known yet whether there is a META."""
    if not await are_devices_ready(state):
        return "not all disks are read (service udevd)"
    stopped = [
        f"RAID array {status.id}: {status.spec.error}"
        for status in await state.list(kinds.MD_ARRAY_STATUS)
        if status.spec.status in _STOPPED
    ]
    return "; ".join(stopped) or f"volume {META.label}: {await _explain(state, META.label)}"


async def wait_until_settled(state: State, volume: str, log: Log) -> bool:
    """Wait until a volume is mounted or can't be; return whether it is mounted.

    A repair takes its time; disks that are not found by now are not waited for.
    """
    while True:
        with trio.move_on_after(REPORT_INTERVAL) as scope:
            status = await wait_for(state, kinds.VOLUME_STATUS, volume, _is_settled)
            if status.spec.phase != enums.VOLUME_PHASE_READY:
                return False
            await wait_for(state, kinds.VOLUME_MOUNT_STATUS, name_request(volume), lambda _: True)
        if not scope.cancelled_caught:
            return True
        log.warning(f"volume {volume}: {await _explain(state, volume)}")
        if not await are_devices_ready(state):
            return False


async def find_dedicated(state: State) -> list[str]:
    """The volumes that are folders of EPHEMERAL unless the config gives them a partition, and it does."""
    configs = await state.list(kinds.VOLUME_CONFIG)
    return [config.id for config in configs if is_dedicated(config.spec)]


async def wait_until_mounted(state: State, volume: str, log: Log) -> None:
    """Wait until a volume is mounted, without limit; log its status periodically."""
    while True:
        with trio.move_on_after(REPORT_INTERVAL) as scope:
            await wait_for(state, kinds.VOLUME_MOUNT_STATUS, name_request(volume), lambda _: True)
        if not scope.cancelled_caught:
            return
        log.warning(f"volume {volume}: {await _explain(state, volume)}")


async def _explain(state: State, volume: str) -> str:
    try:
        spec = (await state.get(kinds.VOLUME_STATUS, volume)).spec
    except NotFoundError:
        return "it has not been located yet"
    phase = enums.BlockVolumePhase.Name(spec.phase).removeprefix("VOLUME_PHASE_").lower()
    return spec.error_message or f"not mounted yet, it is {phase}"


def _is_settled(resource: Resource[block_pb2.VolumeStatusSpec]) -> bool:
    return resource.spec.phase in _SETTLED
