"""What differs between an array that is wanted and what there is. Changes only ever add members."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from talos.disks.candidates import describe_refusal
from talos.disks.raid.specs import LEVEL, FoundMember, WantedArray
from talos.system.block.md import Array, make_name
from talos.system.errors import UserError

MIN_MEMBERS = 2
SYNCING = "waiting for MD array sync to finish: md: resync or recovery in progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """An array to make of blank devices."""

    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Blank devices to add."""

    array: Array
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReAdd:
    """A device that was a member of this array before, to take back."""

    array: Array
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Spares that become members: the array has so many slots then."""

    array: Array
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBitmap:
    """A bitmap for an array that has none."""

    array: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Members that have failed, or are gone, to take out."""

    array: Array


type Change = Creation | Addition | ReAdd | Growth | NewBitmap | Removal


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The array that a document means, if there is one, the next change of it, and what is waited for."""

    array: Array | None = None
    change: Change | None = None
    waiting: str = ""
    problems: tuple[str, ...] = field(default=())


def make_plan(wanted: WantedArray, arrays: Sequence[Array], members: Sequence[FoundMember]) -> Plan:
    """The next step. UserError when the document means an array that can't be as it is wanted."""
    array = _find_array(wanted, arrays, members)
    if array is not None and array.level != LEVEL:
        raise UserError(
            f"{array.device} is of level {array.level or 'none'}, not {LEVEL}: it is not changed",
            where=wanted.name,
            hint=f"to have it made anew, empty: talosctl wipe md {array.device}",
        )
    used = {member.device for each in arrays for member in each.members}
    by_device = {member.device: member for member in members}
    blank: list[str] = []
    returning: list[str] = []
    foreign: list[FoundMember] = []
    for device in wanted.devices:
        if device in used:
            continue
        member = by_device.get(device)
        if member is None:
            blank.append(device)
        elif array is not None and member.uuid == array.uuid:
            returning.append(device)
        else:
            foreign.append(member)
    problems = tuple(
        describe_refusal(member.device, f'is a member of the array "{member.name}", which does not run')
        for member in foreign
    )
    if array is None:
        return _plan_creation(blank, foreign, problems)
    return _plan_change(wanted, array, blank, returning, problems)


def _find_array(wanted: WantedArray, arrays: Sequence[Array], members: Sequence[FoundMember]) -> Array | None:
    """The running array that has one of the devices, else the one of its name."""
    found = [array for array in arrays if any(array.has_member(device) for device in wanted.devices)]
    if not found:
        named = {member.uuid for member in members if member.name == make_name(wanted.name)}
        found = [array for array in arrays if array.uuid in named][:1]
    if len(found) > 1:
        names = ", ".join(array.device for array in found)
        raise UserError(
            f"its selector means members of several arrays: {names}",
            where=wanted.name,
            hint="let it select the disks of one",
        )
    return found[0] if found else None


def _plan_creation(blank: Sequence[str], foreign: Sequence[FoundMember], problems: tuple[str, ...]) -> Plan:
    """Nothing is made beside what may be half of the array that is wanted."""
    if foreign:
        return Plan(waiting=problems[0], problems=problems[1:])
    if len(blank) < MIN_MEMBERS:
        text = f"waiting for enough member disks: matched {len(blank)}, required {MIN_MEMBERS}"
        return Plan(waiting=text)
    return Plan(change=Creation(devices=tuple(blank)))


def _plan_change(
    wanted: WantedArray,
    array: Array,
    blank: Sequence[str],
    returning: Sequence[str],
    problems: tuple[str, ...],
) -> Plan:
    if not array.missing:
        reason = "was a member of this array, which is complete without it"
        problems = (*problems, *(describe_refusal(device, reason) for device in returning))
        returning = ()
    new = (*blank, *returning)
    spares = [member for member in array.members if member.is_spare and member.device in wanted.devices]
    is_gone = any(not member.is_present for member in array.members)
    has_failed = any(not member.is_working for member in array.members)
    if is_gone or (has_failed and new):
        return Plan(array=array, change=Removal(array=array), problems=problems)
    if array.is_busy:
        waiting = SYNCING if new or (spares and not array.missing) else ""
        return Plan(array=array, waiting=waiting, problems=problems)
    if blank:
        return Plan(array=array, change=Addition(array=array, devices=tuple(blank)), problems=problems)
    if returning:
        return Plan(array=array, change=ReAdd(array=array, device=returning[0]), problems=problems)
    if spares and not array.missing:
        growth = Growth(array=array, slots=array.slots + len(spares))
        return Plan(array=array, change=growth, problems=problems)
    # Last: a bitmap for which there is no room holds nothing else back.
    change = None if array.has_bitmap else NewBitmap(array=array)
    return Plan(array=array, change=change, problems=problems)
