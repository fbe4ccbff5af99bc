"""Arrays, made, rebuilt and grown as wanted. What can't be made holds nothing else back."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from talos.disks.candidates import describe_refusal
from talos.disks.raid.plan import Addition, Change, Creation, NewBitmap, Plan, ReAdd, Removal, make_plan
from talos.disks.raid.specs import FoundMember, WantedArray
from talos.system.block.blkid import Content
from talos.system.block.md import Array, Mdadm, find_free_device
from talos.system.errors import UserError
from talos.system.logging import Log

_MAX_STEPS = 4
"""Changes of an array in one go: clean, add, grow, and a look at the end."""

type ReadArrays = Callable[[], Awaitable[Sequence[Array]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReader:
    """Reads what is on a device: ``probe`` what libblkid recognises, ``read_head`` its first bytes."""

    probe: Callable[[str], Awaitable[Content]]
    read_head: Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionResult:
    """What came of an array's document. ``error`` when it can't be as wanted.

    ``failed`` when a program failed: it may succeed later, without another change.
    """

    plan: Plan
    error: str = ""
    changed: bool = False
    failed: bool = False


class RaidProvider:
    """Makes what is missing, of devices on which nothing is."""

    def __init__(self, mdadm: Mdadm, read_arrays: ReadArrays, reader: DeviceReader, log: Log) -> None:
        self._mdadm = mdadm
        self._read_arrays = read_arrays
        self._reader = reader
        self._log = log

    async def provide(self, wanted: WantedArray, members: Sequence[FoundMember]) -> ProvisionResult:
        """Change by change, until there is nothing to do, or something fails."""
        plan, changed = Plan(), False
        for _ in range(_MAX_STEPS):
            arrays = await self._read_arrays()
            try:
                plan = make_plan(wanted, arrays, members)
            except UserError as error:
                return ProvisionResult(plan=Plan(), error=str(error), changed=changed)
            if plan.change is None:
                break
            try:
                await self._change(wanted, plan.change, arrays)
            except (UserError, OSError) as error:
                return ProvisionResult(
                    plan=replace(plan, change=None), error=str(error), changed=changed, failed=True
                )
            changed = True
        return ProvisionResult(plan=replace(plan, change=None), changed=changed)

    async def _change(self, wanted: WantedArray, change: Change, arrays: Sequence[Array]) -> None:
        where = f"RAID array {wanted.name}"
        match change:
            case Creation():
                await self._check_blank(wanted.name, change.devices)
                device = find_free_device(arrays)
                await self._mdadm.create(device, wanted.name, wanted.metadata, change.devices)
                self._log.info(f"{where}: made", device=device, members=" ".join(change.devices))
            case Addition():
                await self._check_blank(wanted.name, change.devices)
                await self._mdadm.add(change.array.device, change.devices)
                self._log.info(f"{where}: members added", members=" ".join(change.devices))
            case ReAdd():
                await self._take_back(wanted.name, change)
                self._log.info(f"{where}: a member is back", member=change.device)
            case NewBitmap():
                await self._mdadm.add_bitmap(change.array.device)
                self._log.info(f"{where}: has a bitmap", device=change.array.device)
            case Removal():
                await self._mdadm.drop_failed(change.array.device)
                self._log.warning(f"{where}: failed members taken out", device=change.array.device)
            case _:
                await self._mdadm.grow(change.array.device, change.slots)
                self._log.info(f"{where}: grown to {change.slots} members")

    async def _take_back(self, name: str, change: ReAdd) -> None:
        device = change.device
        if await self._mdadm.has_run_alone(device):
            reason = "was a member of this array, and was used without the others: it is not written over"
            raise _refuse(name, device, reason)
        try:
            await self._mdadm.add_again(change.array.device, device)
        except UserError as error:
            raise _refuse(name, device, f"can't be taken back: {error.message}") from error

    async def _check_blank(self, name: str, devices: Sequence[str]) -> None:
        """UserError for the first device that is not blank: mdadm would write over anything."""
        for device in devices:
            content = await self._reader.probe(device)
            if content.kind:
                raise _refuse(name, device, f"holds {content.name}: it is not written over")
            if any(await self._reader.read_head(device)):
                raise _refuse(name, device, "holds unrecognised data: it is not written over")


def _refuse(name: str, device: str, reason: str) -> UserError:
    return UserError(describe_refusal(device, reason), where=name)
