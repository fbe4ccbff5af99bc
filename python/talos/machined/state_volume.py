"""Waiting for STATE, where a machine that was here before keeps its config."""

from pathlib import Path

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.machined.node import Platform
from talos.resource import kinds
from talos.resource.changes import wait_for
from talos.resource.resource import Resource
from talos.resource.state import State
from talos.system.mounts import Mounts

STATE = "STATE"
KNOWN_LIMIT = 5.0
"""Seconds in which it has to be said that there is to be such a volume at all."""
LIMIT = 120.0
"""Seconds in which the disks have to be known, and STATE mounted."""
MOUNT_LIMIT = 30.0
LOOK_AGAIN = 0.1
_DECIDED = (enums.VOLUME_PHASE_READY, enums.VOLUME_PHASE_MISSING, enums.VOLUME_PHASE_FAILED)


async def wait_for_state_volume(state: State, place: Path, platform: Platform, mounts: Mounts) -> bool:
    """Until it is mounted, true, or known not to be there.

    In a container STATE is a folder that is there from the start.
    """
    if platform.mode == "container":
        return True
    with trio.move_on_after(KNOWN_LIMIT) as waiting:
        await wait_for(state, kinds.VOLUME_CONFIG, STATE, lambda _: True)
    if waiting.cancelled_caught:
        return False
    with trio.move_on_after(LIMIT):
        found = await wait_for(state, kinds.VOLUME_STATUS, STATE, _is_decided)
        if found.spec.phase != enums.VOLUME_PHASE_READY:
            return False
        with trio.move_on_after(MOUNT_LIMIT):
            while not any(mount.target == str(place) for mount in mounts.list()):  # noqa: ASYNC110 - a mount tells nobody
                await trio.sleep(LOOK_AGAIN)
            return True
    return False


def _is_decided(resource: Resource[block_pb2.VolumeStatusSpec]) -> bool:
    return resource.spec.phase in _DECIDED
