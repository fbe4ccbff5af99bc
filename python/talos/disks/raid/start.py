"""Starting the arrays that are found: whole ones at once, others without what is missing after a while."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import trio

from talos.disks.raid.provide import ReadArrays
from talos.disks.raid.specs import FoundMember
from talos.system.block.md import Mdadm, find_free_device
from talos.system.errors import UserError
from talos.system.logging import Log

MISSING_DISK_TIMEOUT = 30.0
"""Seconds that an array's missing members have to appear: it is started without them then."""


@dataclass(slots=True)
class _StartAttempt:
    """What was done about an array, by the devices of its members."""

    started: frozenset[str] = frozenset()
    """With which it ran, or was to run without those that are missing."""
    tried: frozenset[str] = frozenset()
    """With which a start was tried last."""
    waits_since: float | None = None
    """Since when it waits for members."""
    failure: str = ""
    """Why it does not run."""


@dataclass(slots=True)
class ArrayStarter:
    """Starts each array once. One that the API has stopped is not started again."""

    mdadm: Mdadm
    read_arrays: ReadArrays
    log: Log
    _known: dict[str, _StartAttempt] = field(default_factory=dict[str, _StartAttempt])
    """By UUID."""

    @property
    def time_left(self) -> float:
        """Seconds until the next array is started without the members that it waits for, if one does."""
        begun = [known.waits_since for known in self._known.values() if known.waits_since is not None]
        return max(min(begun) + MISSING_DISK_TIMEOUT - trio.current_time(), 0) if begun else math.inf

    @property
    def failures(self) -> Mapping[str, str]:
        """By UUID: why an array does not run."""
        return {uuid: known.failure for uuid, known in self._known.items() if known.failure}

    async def start(self, members: Sequence[FoundMember]) -> None:
        """Start the arrays of these members that did not run yet. The kernel announces what is on them."""
        groups = group_members(members)
        running = {array.uuid for array in await self.read_arrays()}
        self._known = {uuid: self._known.get(uuid, _StartAttempt()) for uuid in groups}
        for uuid, found in groups.items():
            known, devices = self._known[uuid], frozenset(member.device for member in found)
            if uuid in running:
                self._known[uuid] = _StartAttempt(started=known.started | devices, tried=known.tried)
            elif not devices <= known.started:
                await self._try(known, found, devices)
            else:
                known.waits_since = None

    async def _try(self, known: _StartAttempt, found: Sequence[FoundMember], devices: frozenset[str]) -> None:
        """Start an array with these devices, at once or, after a while, without the others."""
        now = trio.current_time()
        if known.waits_since is None:
            known.waits_since = now
        is_late = now - known.waits_since >= MISSING_DISK_TIMEOUT
        if not is_late and known.tried == devices:
            return
        known.tried = devices
        error = await self._start(found, partial=is_late)
        if is_late or not error:
            known.started, known.waits_since, known.failure = devices, None, error

    async def _start(self, found: Sequence[FoundMember], *, partial: bool) -> str:
        """Start an array; return why that failed, empty when it runs."""
        name, devices = found[0].name or found[0].uuid, [member.device for member in found]
        try:
            device = find_free_device(await self.read_arrays())
            await self.mdadm.assemble(device, devices, partial=partial)
        except UserError as error:
            level = "warning" if partial else "info"
            self.log.once(f"RAID array {name} is not started: {error}", level=level)
            return str(error)
        text = f"RAID array {name}: started"
        self.log.info(text + (" without the members that are missing" if partial else ""), device=device)
        return ""


def group_members(members: Sequence[FoundMember]) -> dict[str, list[FoundMember]]:
    """The members of each array, by its UUID."""
    groups: dict[str, list[FoundMember]] = {}
    for member in members:
        groups.setdefault(member.uuid, []).append(member)
    return groups
