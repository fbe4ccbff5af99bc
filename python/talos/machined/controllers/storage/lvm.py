"""LVMController: volume groups and logical volumes, from the config to the disks and to their status."""

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import override

import trio
from google.protobuf.message import Message

from talos.api.definitions import storage_pb2
from talos.config.active import read_config
from talos.disks.devices import are_devices_ready, read_disk_specs
from talos.disks.installation import find_installed
from talos.disks.lvm.provide import LvmProvider, ProvisionResult
from talos.disks.lvm.specs import (
    LvmSpecs,
    Problem,
    make_group_spec,
    make_logical_spec,
    make_message,
    make_physical_spec,
    make_specs,
)
from talos.disks.lvm.status import make_group_status, make_logical_status, make_physical_status
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.kind import Kind
from talos.system.block.lvm import MEMBER, Lvm, LvmReport, Row
from talos.system.errors import UserError
from talos.system.logging import Log

RETRY = 60.0
"""Seconds after which what failed is tried again, if nothing changes before."""
MISSING_DISK_TIMEOUT = 30.0
"""Seconds that a group's missing disks have to appear: its mirrored volumes are used without them then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastInputs:
    """What decides whether lvm has anything new to do or to report."""

    specs: LvmSpecs
    members: frozenset[tuple[str, str, int]]
    request: int
    installed: bool


class LVMController(Reconciler):
    """MachineConfig, DiscoveredVolume → the specs, statuses and errors of LVM.

    lvm runs only on a machine whose config or whose disks have something of it, and only when that changes.
    On one that is installed, the groups that it finds are activated once. Nothing is removed or made smaller.
    """

    name = "storage.LVMController"
    inputs = (
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.DEVICES_STATUS),
        Input(kinds.DISK),
        Input(kinds.DISCOVERED_VOLUME),
        Input(*ids.LVM_REFRESH_REQUEST),
    )
    outputs = (
        Output(kinds.LVM_PHYSICAL_VOLUME_SPEC),
        Output(kinds.LVM_VOLUME_GROUP_SPEC),
        Output(kinds.LVM_LOGICAL_VOLUME_SPEC),
        Output(kinds.LVM_PHYSICAL_VOLUME_STATUS),
        Output(kinds.LVM_VOLUME_GROUP_STATUS),
        Output(kinds.LVM_LOGICAL_VOLUME_STATUS),
        Output(kinds.LVM_VALIDATION_ERROR),
    )

    def __init__(
        self,
        lvm: Lvm,
        read_head: Callable[[str], Awaitable[bytes]],
        refresh: Callable[[], Awaitable[None]],
        log: Log,
    ) -> None:
        self._lvm = lvm
        self._provider = LvmProvider(lvm, read_head, log)
        self._refresh = refresh
        self._log = log
        self._done: _LastInputs | None = None
        self._report = LvmReport()
        self._problems: Sequence[Problem] = ()
        self._activated: set[tuple[str, str]] = set()
        """Groups as they were then, by their UUID and how many physical volumes they lacked."""
        self._incomplete: dict[str, float] = {}

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        if not await are_devices_ready(runtime):
            return
        config = await read_config(runtime)
        volumes = await runtime.list(kinds.DISCOVERED_VOLUME)
        disks = await read_disk_specs(runtime)
        request = await runtime.get_or_none(*ids.LVM_REFRESH_REQUEST)
        seen = _LastInputs(
            specs=make_specs(config, volumes, disks),
            members=frozenset(
                (volume.spec.dev_path, volume.spec.uuid, volume.spec.size)
                for volume in volumes
                if volume.spec.name == MEMBER
            ),
            request=request.spec.request if request else 0,
            installed=bool(find_installed(volume.spec for volume in volumes)),
        )
        is_used = bool(seen.specs.groups or seen.specs.logical or seen.members or self._report.physical)
        if is_used and (seen != self._done or self.interval != math.inf):
            await self._work(seen)
        await self._publish(runtime, seen.specs)

    async def _work(self, seen: _LastInputs) -> None:
        """Look, activate, make; then look again."""
        self.interval = math.inf
        try:
            self._report = await self._lvm.report()
            problems, provided = [], ProvisionResult()
            if seen.installed:  # else what is activated would be in the way of an installation
                problems = await self._activate_all()
                provided = await self._provider.provide(seen.specs, self._report)
            if provided.changed:
                self._report = await self._lvm.report()
        except UserError as error:
            self._log.once(f"LVM: {error}", level="warning")
            self._done, self.interval = None, RETRY
            return
        self._done = seen
        self._problems = [*problems, *provided.problems]
        for problem in self._problems:
            self._log.once(f"LVM: {problem.id}: {problem.message}", level="warning")
        if seen.installed:
            self._activated |= {_make_key(row) for row in self._report.groups if not _is_partial(row)}
        if provided.failed:
            self.interval = RETRY
        elif self._incomplete:
            self.interval = MISSING_DISK_TIMEOUT
        if provided.changed:
            await self._refresh()

    async def _activate_all(self) -> list[Problem]:
        """Activate the groups that were not yet: complete ones at once, others after their time."""
        problems: list[Problem] = []
        waiting: dict[str, float] = {}
        now, is_changed = trio.current_time(), False
        for row in self._report.groups:
            name, uuid = row["vg_name"], row["vg_uuid"]
            if _is_partial(row):
                lacking = f"the volume group lacks {row['vg_missing_pv_count']} of its physical volumes"
                problems.append(Problem(id=name, group=name, message=f"{lacking} (connect its disks)"))
            if _make_key(row) in self._activated or row["vg_exported"] or row["lv_count"] == "0":
                continue
            since = self._incomplete.get(uuid, now)
            if _is_partial(row) and now - since < MISSING_DISK_TIMEOUT:
                waiting[uuid] = since
                continue
            self._activated.add(_make_key(row))
            is_changed = True
            try:
                await self._lvm.activate(name)
            except UserError as error:
                problems.append(Problem(id=name, group=name, message=make_message(error, name)))
            else:
                self._log.info(f"volume group {name}: activated")
        self._incomplete = waiting
        if is_changed:
            self._report = await self._lvm.report()
        return problems

    async def _publish(self, runtime: ControllerRuntime, specs: LvmSpecs) -> None:
        report = self._report
        async with runtime.track_outputs():
            for group in specs.groups:
                await runtime.put(kinds.LVM_VOLUME_GROUP_SPEC, group.name, make_group_spec(group))
                for device in group.devices:
                    name, spec = _make_id(device), make_physical_spec(group, device)
                    await runtime.put(kinds.LVM_PHYSICAL_VOLUME_SPEC, name, spec)
            for volume in specs.logical:
                name = f"{volume.group}-{volume.name}"
                await runtime.put(kinds.LVM_LOGICAL_VOLUME_SPEC, name, make_logical_spec(volume))
            physical = [(_make_id(row["pv_name"]), make_physical_status(row)) for row in report.physical]
            groups = [(row["vg_name"], make_group_status(row)) for row in report.groups]
            logical = [
                (f"{row['vg_name']}-{row['lv_name']}", make_logical_status(row)) for row in report.logical
            ]
            await _put_all(runtime, kinds.LVM_PHYSICAL_VOLUME_STATUS, physical)
            await _put_all(runtime, kinds.LVM_VOLUME_GROUP_STATUS, groups)
            await _put_all(runtime, kinds.LVM_LOGICAL_VOLUME_STATUS, logical)
            await _put_all(
                runtime, kinds.LVM_VALIDATION_ERROR, _make_errors([*specs.problems, *self._problems])
            )


async def _put_all[S: Message](
    runtime: ControllerRuntime, kind: Kind[S], found: Iterable[tuple[str, S]]
) -> None:
    """Write each; of two with one id (``a-b`` in ``c``, ``b-c`` in ``a``, two groups of a name) the first."""
    first: dict[str, S] = {}
    for name, spec in found:
        first.setdefault(name, spec)
    for name, spec in first.items():
        await runtime.put(kind, name, spec)


def _make_errors(problems: Sequence[Problem]) -> list[tuple[str, storage_pb2.LVMValidationErrorSpec]]:
    found: dict[str, list[str]] = {}
    groups = {problem.id: problem.group for problem in problems}
    for problem in problems:
        found.setdefault(problem.id, []).append(problem.message)
    return [
        (place, storage_pb2.LVMValidationErrorSpec(vg_name=groups[place], message="; ".join(messages)))
        for place, messages in found.items()
    ]


def _make_id(device: str) -> str:
    return device.removeprefix("/dev/")


def _make_key(row: Row) -> tuple[str, str]:
    return row["vg_uuid"], row["vg_missing_pv_count"]


def _is_partial(row: Row) -> bool:
    return row["vg_missing_pv_count"] not in {"", "0"}
