"""Arrays as resources, and what is wrong with them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import storage_pb2
from talos.disks.raid.provide import ProvisionResult
from talos.disks.raid.specs import LEVEL, FoundMember, WantedArray
from talos.system.block.md import Array, Member, format_uuid

BY_ID = "/dev/disk/by-id/md-name-"
_NAME = re.compile(r"([A-Za-z0-9_.-]{1,32}:)?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,31}", re.ASCII)
"""Names that are links and ids as they are; what is on a disk of others may be anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayStatus:
    """A status, with its id. ``is_unhealthy`` when a person has to do something."""

    id: str
    spec: storage_pb2.MDArrayStatusSpec
    is_unhealthy: bool = False


def make_wanted_status(
    wanted: WantedArray, provided: ProvisionResult, array: Array | None, members: Sequence[FoundMember]
) -> ArrayStatus:
    """The status of a document's array, and of the ``array`` that it means as it is now."""
    plan = provided.plan
    spec = _describe(array, members) if array else storage_pb2.MDArrayStatusSpec()
    lacking = describe_missing(array) if array else ""
    notes = [provided.error, *wanted.problems, *plan.problems, plan.waiting, lacking]
    if provided.error:
        spec.status = enums.MD_ARRAY_PHASE_ERROR
    elif array is None:
        spec.status = enums.MD_ARRAY_PHASE_WAITING
    spec.error = "; ".join(filter(None, notes))
    is_unhealthy = bool(provided.error or wanted.problems or plan.problems or lacking)
    return ArrayStatus(id=wanted.name, spec=spec, is_unhealthy=is_unhealthy)


def make_other_status(array: Array, members: Sequence[FoundMember]) -> ArrayStatus:
    """The status of an array that no document means."""
    lacking = describe_missing(array)
    spec = _describe(array, members)
    spec.error = lacking
    name = _make_id(spec.name, array.device.removeprefix("/dev/"))
    return ArrayStatus(id=name, spec=spec, is_unhealthy=bool(lacking))


def make_stopped_status(member: FoundMember, devices: Sequence[str], error: str) -> ArrayStatus:
    """The status of an array that is not started, of which there are some members."""
    spec = storage_pb2.MDArrayStatusSpec(
        status=enums.MD_ARRAY_PHASE_ERROR if error else enums.MD_ARRAY_PHASE_WAITING,
        members=devices,
        uuid=format_uuid(member.uuid),
        name=member.name,
        error=error or "it is not started",
    )
    return ArrayStatus(id=_make_id(member.name, member.uuid), spec=spec, is_unhealthy=bool(error))


def add_error(status: ArrayStatus, error: str) -> ArrayStatus:
    """The status with what is wrong with another array of its name."""
    spec = storage_pb2.MDArrayStatusSpec()
    spec.CopyFrom(status.spec)
    spec.error = "; ".join(filter(None, (spec.error, error)))
    return ArrayStatus(id=status.id, spec=spec, is_unhealthy=True)


def _make_id(name: str, other: str) -> str:
    return name.rpartition(":")[2] if _NAME.fullmatch(name) else other


def _describe(array: Array, members: Sequence[FoundMember]) -> storage_pb2.MDArrayStatusSpec:
    name = find_name(array, members)
    is_healthy = array.is_running and array.level == LEVEL
    return storage_pb2.MDArrayStatusSpec(
        level=enums.MD_LEVEL_RAID1,
        device=f"{BY_ID}{name}" if _NAME.fullmatch(name) else array.device,
        members=[member.device for member in array.members if member.is_working],
        status=enums.MD_ARRAY_PHASE_REBUILDING
        if array.is_syncing
        else enums.MD_ARRAY_PHASE_READY
        if is_healthy
        else enums.MD_ARRAY_PHASE_UNKNOWN,
        raid_devices=array.slots,
        uuid=format_uuid(array.uuid),
        name=name,
        metadata=array.metadata,
        array_state=array.state,
        sync_action=array.sync_action,
    )


def parse_array(spec: storage_pb2.MDArrayStatusSpec) -> Array:
    """The array of a status, with its working members; a status has neither others nor the bitmap."""
    return Array(
        device=spec.device,
        uuid=str(UUID(spec.uuid.replace(":", ""))) if spec.uuid else "",
        level=LEVEL if spec.level == enums.MD_LEVEL_RAID1 else "",
        metadata=spec.metadata,
        state=spec.array_state,
        sync_action=spec.sync_action,
        has_bitmap=True,
        slots=spec.raid_devices,
        members=tuple(
            Member(device=device, states=frozenset({"in_sync"}), slot=slot, is_present=True)
            for slot, device in enumerate(spec.members)
        ),
    )


def find_name(array: Array, members: Sequence[FoundMember]) -> str:
    """The name in the metadata of its members, such as ``talos:data``; empty as long as none was read."""
    return next((member.name for member in members if member.uuid == array.uuid), "")


def describe_missing(array: Array) -> str:
    """What an array lacks; empty when it has all of its members, or is being rebuilt."""
    if not array.is_degraded:
        return ""
    failed = [member.device for member in array.members if not member.is_working]
    text = f"{array.missing} of {array.slots} members are missing"
    if failed:
        text += f", {' and '.join(failed)} failed"
    return f"{text} (connect it again, or a blank disk that the selector means)"
