"""Groups and logical volumes, made and grown as wanted. What can't be made holds nothing else back."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from talos.disks.disk import make_wipe_hint
from talos.disks.lvm.plan import Growth, find_group_change, find_logical_change
from talos.disks.lvm.specs import LvmSpecs, Problem, WantedGroup, make_message
from talos.system.block.lvm import LogicalVolume, Lvm, LvmReport
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.sizes import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionResult:
    """The result. ``failed`` when a program failed: it may succeed later, without another change."""

    problems: Sequence[Problem] = ()
    changed: bool = False
    failed: bool = False


class LvmProvider:
    """Makes what is missing. ``read_head`` reads the first bytes of a device."""

    def __init__(self, lvm: Lvm, read_head: Callable[[str], Awaitable[bytes]], log: Log) -> None:
        self._lvm = lvm
        self._read_head = read_head
        self._log = log

    async def provide(self, specs: LvmSpecs, report: LvmReport) -> ProvisionResult:
        """Groups first, then the volumes in them."""
        problems: list[Problem] = []
        changed = failed = False
        for group in specs.groups:
            try:
                reasons, is_changed, is_failed = await self._provide_group(group, report)
            except (UserError, OSError) as error:
                reasons = [make_message(error, group.name)]
                is_changed, is_failed = False, not isinstance(error, UserError)
            changed, failed = changed or is_changed, failed or is_failed
            problems += [Problem(id=group.name, group=group.name, message=reason) for reason in reasons]
        if changed and specs.logical:
            report = await self._lvm.report()
        for volume in specs.logical:
            try:
                change = find_logical_change(volume, report)
            except UserError as error:
                problems.append(_name_problem(volume, error))
                continue
            if change is None:
                continue
            changed = True
            try:
                await self._change(change)
            except (UserError, OSError) as error:
                failed = True
                problems.append(_name_problem(volume, error))
            report = await self._lvm.report()
        return ProvisionResult(problems=problems, changed=changed, failed=failed)

    async def _provide_group(self, group: WantedGroup, report: LvmReport) -> tuple[list[str], bool, bool]:
        """Why devices are not taken, whether there was a change, and whether a program failed."""
        change, reasons = find_group_change(group, report)
        if change is None:
            return reasons, False, False
        failed: list[str] = []
        devices: list[str] = []
        for device in change.devices:
            try:
                if device in change.blank:
                    await self._make_physical(group.name, device)
            except (UserError, OSError) as error:
                failed.append(make_message(error, group.name))
            else:
                devices.append(device)
        if devices:
            try:
                await self._join(group.name, devices, create=change.create)
            except UserError as error:
                failed.append(make_message(error, group.name))
        return [*reasons, *failed], bool(devices), bool(failed)

    async def _make_physical(self, group: str, device: str) -> None:
        if any(await self._read_head(device)):
            raise UserError(
                f"{device} holds unrecognised data: it is not written over",
                where=group,
                hint=make_wipe_hint(device),
            )
        self._log.info(f"volume group {group}: a new physical volume", device=device)
        await self._lvm.create_physical(device)

    async def _join(self, group: str, devices: Sequence[str], *, create: bool) -> None:
        if create:
            await self._lvm.create_group(group, devices)
            self._log.info(f"volume group {group}: made", devices=" ".join(devices))
        else:
            await self._lvm.extend_group(group, devices)
            self._log.info(f"volume group {group}: extended", devices=" ".join(devices))

    async def _change(self, change: LogicalVolume | Growth) -> None:
        where = f"{change.group}/{change.name}"
        if isinstance(change, Growth):
            await self._lvm.extend_logical(change.group, change.name, change.size)
            self._log.info(f"logical volume {where}: grown to {format_size(change.size)}")
        else:
            await self._lvm.create_logical(change)
            self._log.info(f"logical volume {where}: made", type=change.type)


def _name_problem(volume: LogicalVolume, error: Exception) -> Problem:
    place = f"{volume.group}/{volume.name}"
    return Problem(id=place, group=volume.group, message=make_message(error, place))
