"""RAIDController: software RAID, from the config to the disks and to the arrays' status."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import override

import trio

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.config.active import read_config
from talos.disks.candidates import describe_refusal
from talos.disks.devices import are_devices_ready, read_disk_specs
from talos.disks.install.array import find_target
from talos.disks.installation import find_installed
from talos.disks.raid.plan import Plan
from talos.disks.raid.provide import DeviceReader, ProvisionResult, RaidProvider, ReadArrays
from talos.disks.raid.specs import FoundMember, WantedArray, find_members, make_spec, make_specs
from talos.disks.raid.start import ArrayStarter, group_members
from talos.disks.raid.status import (
    ArrayStatus,
    add_error,
    find_name,
    make_other_status,
    make_stopped_status,
    make_wanted_status,
)
from talos.disks.raid.system import holds_system
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.block.md import Array, Mdadm, make_name
from talos.system.logging import Log

RETRY = 60.0
"""Seconds after which what failed is tried again, if nothing changes before."""
POLL_INTERVAL = 30.0
"""Seconds between two checks of the arrays: the kernel announces no member that failed."""
SYNC_INTERVAL = 5.0
"""Seconds between two checks while an array is rebuilt."""
OTHER_SYSTEM = "holds another system than this machine's: its array is not started"
_NOT_INSTALLED = ProvisionResult(plan=Plan(waiting="waiting for the installation of this machine"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastInputs:
    """The inputs of a reconciliation: other ones have failed programs run again at once."""

    arrays: tuple[WantedArray, ...]
    members: tuple[FoundMember, ...]
    request: int
    is_installed: bool
    target: str
    """The array that the system is installed to, by its document's name."""


class RAIDController(Reconciler):
    """MachineConfig, DiscoveredVolume → the specs and statuses of arrays, diagnostics of unhealthy ones.

    mdadm runs only on a machine whose config or whose disks have something of RAID, and only for a change:
    arrays are read from sysfs. On a machine that is installed, all arrays that are found are started once;
    before, only that of the system. None is stopped or made smaller, and no document that goes changes one.
    """

    name = "storage.RAIDController"
    inputs = (
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.DEVICES_STATUS),
        Input(kinds.DISK),
        Input(kinds.DISCOVERED_VOLUME),
        Input(*ids.MD_REFRESH_REQUEST),
    )
    outputs = (
        Output(kinds.MD_ARRAY_SPEC),
        Output(kinds.MD_ARRAY_STATUS),
        Output(kinds.DIAGNOSTIC, shared=True),
    )

    def __init__(
        self,
        mdadm: Mdadm,
        read_arrays: ReadArrays,
        reader: DeviceReader,
        refresh: Callable[[], Awaitable[None]],
        log: Log,
    ) -> None:
        self._read_arrays, self._read_head = read_arrays, reader.read_head
        self._starter = ArrayStarter(mdadm, read_arrays, log)
        self._provider = RaidProvider(mdadm, read_arrays, reader, log)
        self._refresh = refresh
        self._log = log
        self._seen: _LastInputs | None = None
        self._failures: dict[str, tuple[float, ProvisionResult]] = {}
        """What failed, by the array's name, and when it is tried again."""
        self._others = set[str]()
        """By UUID: arrays with a system that is not this machine's."""
        self._was_used = False

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        if not await are_devices_ready(runtime):
            return
        config = await read_config(runtime)
        volumes = await runtime.list(kinds.DISCOVERED_VOLUME)
        disks = await read_disk_specs(runtime)
        request = await runtime.get_or_none(*ids.MD_REFRESH_REQUEST)
        seen = _LastInputs(
            arrays=make_specs(config, volumes, disks),
            members=find_members(volumes),
            request=request.spec.request if request else 0,
            is_installed=bool(find_installed(volume.spec for volume in volumes)),
            target=find_target(config),
        )
        self.interval = math.inf
        if not (seen.arrays or seen.members or self._was_used):
            return
        if seen != self._seen:
            self._failures.clear()
        self._seen = seen
        await self._reconcile_arrays(runtime, seen)

    async def _reconcile_arrays(self, runtime: ControllerRuntime, seen: _LastInputs) -> None:
        await self._starter.start(await self._find_startable(seen))
        provided: dict[str, ProvisionResult] = {}
        for wanted in seen.arrays:
            is_made = seen.is_installed or wanted.name == seen.target
            provided[wanted.name] = await self._provide(wanted, seen) if is_made else _NOT_INSTALLED
        arrays = await self._read_arrays()
        self._was_used = bool(seen.arrays or seen.members or arrays)
        await self._publish(runtime, seen, arrays, self._make_statuses(seen, arrays, provided))
        if any(array.is_syncing for array in arrays):
            self.interval = SYNC_INTERVAL
        elif arrays or self._failures:
            self.interval = POLL_INTERVAL
        self.interval = min(self.interval, self._starter.time_left)
        if any(one.changed for one in provided.values()):
            await self._refresh()

    async def _provide(self, wanted: WantedArray, seen: _LastInputs) -> ProvisionResult:
        until, before = self._failures.get(wanted.name, (-math.inf, None))
        if before is not None and trio.current_time() < until:
            return before
        provided = await self._provider.provide(wanted, seen.members)
        if provided.failed:
            self._failures[wanted.name] = (
                trio.current_time() + RETRY,
                ProvisionResult(plan=provided.plan, error=provided.error, failed=True),
            )
        else:
            self._failures.pop(wanted.name, None)
        if provided.error:
            self._log.once(f"RAID array {wanted.name}: {provided.error}", level="warning")
        return provided

    async def _find_startable(self, seen: _LastInputs) -> Sequence[FoundMember]:
        """The members of arrays that are to run: on an installed machine all but those of other systems.

        Until a system is found, these are the array that holds one, and that which the system is installed
        to: any other would be in the way of an installation.
        """
        target = make_name(seen.target) if seen.target else ""
        running = {array.uuid for array in await self._read_arrays()}
        self._others, found = set[str](), list[FoundMember]()
        for uuid, members in group_members(seen.members).items():
            is_system = uuid not in running and await holds_system(
                [member.device for member in members], self._read_head
            )
            if seen.is_installed and is_system:
                self._others.add(uuid)
            elif seen.is_installed or is_system or uuid in running or members[0].name == target:
                found += members
        return found

    def _make_statuses(
        self, seen: _LastInputs, arrays: Sequence[Array], provided: Mapping[str, ProvisionResult]
    ) -> list[ArrayStatus]:
        """Those of documents first. Of two with one name the first is shown, and the other's errors."""
        found: list[ArrayStatus] = []
        shown: set[str] = set()
        for wanted in seen.arrays:
            one = provided[wanted.name]
            uuid = one.plan.array.uuid if one.plan.array else ""
            array = next((array for array in arrays if array.uuid == uuid), None)
            if array:
                shown.add(array.device)
            found.append(make_wanted_status(wanted, one, array, seen.members))
        found += [make_other_status(array, seen.members) for array in arrays if array.device not in shown]
        running = {array.uuid for array in arrays}
        for uuid, members in group_members(seen.members).items():
            if uuid not in running:
                devices = [member.device for member in members]
                error = describe_refusal(devices[0], OTHER_SYSTEM) if uuid in self._others else ""
                error = error or self._starter.failures.get(uuid, "")
                found.append(make_stopped_status(members[0], devices, error))
        statuses: dict[str, ArrayStatus] = {}
        for status in found:
            first = statuses.setdefault(status.id, status)
            if first is not status and status.is_unhealthy:
                statuses[status.id] = add_error(first, status.spec.error)
        return list(statuses.values())

    async def _publish(
        self,
        runtime: ControllerRuntime,
        seen: _LastInputs,
        arrays: Sequence[Array],
        statuses: Sequence[ArrayStatus],
    ) -> None:
        for array in arrays:
            if array.is_degraded:
                name = find_name(array, seen.members) or array.device
                text = f"RAID array {name}: {array.missing} of {array.slots} members are missing"
                self._log.once(text, level="warning")
        async with runtime.track_outputs():
            for wanted in seen.arrays:
                await runtime.put(kinds.MD_ARRAY_SPEC, wanted.name, make_spec(wanted))
            for status in statuses:
                await runtime.put(kinds.MD_ARRAY_STATUS, status.id, status.spec)
                if status.is_unhealthy:
                    spec = DiagnosticSpec(
                        message=f"RAID array {status.id} needs attention", details=[status.spec.error]
                    )
                    await runtime.put(kinds.DIAGNOSTIC, f"raid-{status.id}", spec)
