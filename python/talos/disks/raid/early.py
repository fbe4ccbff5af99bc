"""The array with the system, started before the controllers run: for what a kernel argument has erased."""

from collections.abc import Sequence

import trio

from talos.disks.installation import find_installed
from talos.disks.raid.specs import FoundMember, find_members
from talos.disks.raid.start import MISSING_DISK_TIMEOUT, ArrayStarter, group_members
from talos.disks.raid.system import ReadHead, holds_system, is_system_expected
from talos.disks.refresh import refresh_discovery
from talos.resource.kinds import DISCOVERED_VOLUME, DISK
from talos.resource.state import State

TIMEOUT = 2 * MISSING_DISK_TIMEOUT
"""Seconds until its partitions have to be discovered."""
_INTERVAL = 1.0
"""Seconds between two looks."""


async def start_system_array(state: State, starter: ArrayStarter, read_head: ReadHead) -> None:
    """Start it, if there is one and no disk looks installed; wait until its partitions are discovered."""
    with trio.move_on_after(TIMEOUT):
        while not starter.failures:
            volumes = await state.list(DISCOVERED_VOLUME)
            disks = {disk.id: disk.spec for disk in await state.list(DISK)}
            is_installed = bool(find_installed(volume.spec for volume in volumes))
            if is_installed or not await is_system_expected(volumes, disks, (), read_head):
                return
            await starter.start(await _find_system(find_members(volumes), read_head))
            await refresh_discovery(state)
            await trio.sleep(_INTERVAL)


async def _find_system(members: Sequence[FoundMember], read_head: ReadHead) -> Sequence[FoundMember]:
    """The members of arrays with a system."""
    return [
        member
        for group in group_members(members).values()
        if await holds_system([member.device for member in group], read_head)
        for member in group
    ]
