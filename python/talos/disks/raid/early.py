"""Arrays that are started before the controllers run: for what a kernel argument has erased."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from talos.disks.devices import read_disk_specs
from talos.disks.installation import find_installed
from talos.disks.raid.specs import FoundMember, find_members
from talos.disks.raid.start import MISSING_DISK_TIMEOUT, ArrayStarter, group_members
from talos.disks.raid.system import ReadHead, holds_system, is_system_expected
from talos.disks.refresh import refresh_discovery
from talos.resource.kinds import DISCOVERED_VOLUME
from talos.resource.state import State

TIMEOUT = 2 * MISSING_DISK_TIMEOUT
"""Seconds until the partitions of arrays have to be discovered."""
_INTERVAL = 1.0
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class EarlyArrays:
    """The arrays, started by the rules of the controllers."""

    state: State
    starter: ArrayStarter
    read_head: ReadHead

    async def start_system(self) -> None:
        """Start the one with the system, if there is one and no disk looks installed.

        Wait until its partitions are discovered.
        """
        with trio.move_on_after(TIMEOUT):
            while not self.starter.failures and await self._is_expected():
                await self.starter.start(await self._find(has_system=True))
                await refresh_discovery(self.state)
                await trio.sleep(_INTERVAL)

    async def start_others(self) -> None:
        """Start those without a system, where the system is installed: else they would be in its way.

        Wait until what is on them is discovered.
        """
        if not await self._is_installed():
            return
        with trio.move_on_after(TIMEOUT):
            while members := await self._find(has_system=False):
                await self.starter.start(members)
                await refresh_discovery(self.state)
                if self.starter.time_left == math.inf:
                    # The kernel has read the partitions of an array when the first discovery opened it.
                    await refresh_discovery(self.state)
                    return
                await trio.sleep(_INTERVAL)

    async def _is_expected(self) -> bool:
        """Whether there is an array with the system that does not run."""
        if await self._is_installed():
            return False
        volumes = await self.state.list(DISCOVERED_VOLUME)
        disks = await read_disk_specs(self.state)
        return await is_system_expected(volumes, disks, (), self.read_head)

    async def _is_installed(self) -> bool:
        return bool(find_installed(volume.spec for volume in await self.state.list(DISCOVERED_VOLUME)))

    async def _find(self, *, has_system: bool) -> Sequence[FoundMember]:
        """The members of arrays with a system, or of all others."""
        members = find_members(await self.state.list(DISCOVERED_VOLUME))
        return [
            member
            for group in group_members(members).values()
            if await holds_system([member.device for member in group], self.read_head) is has_system
            for member in group
        ]
