"""An installation to an array of software RAID. It may not be there yet: its document has it made first."""

import re
from collections.abc import Mapping

import trio

from talos.api.definitions import block_pb2, storage_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.documents.storage.raid_array import RAIDArrayConfig
from talos.config.model import Config
from talos.disks.devices import read_disk_specs
from talos.disks.install.plan import describe_areas
from talos.disks.install.request import read_request
from talos.disks.raid.plan import MIN_MEMBERS
from talos.disks.raid.specs import WantedArray, make_specs
from talos.disks.raid.status import BY_ID
from talos.disks.raid.system import METADATA
from talos.disks.refresh import refresh_discovery
from talos.resource import kinds
from talos.resource.changes import wait_for
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, State
from talos.system.block.layout import MINIMUM_SIZE, Area
from talos.system.block.md import make_name
from talos.system.errors import UserError
from talos.system.sizes import format_size

TIMEOUT = 90.0
"""Seconds until the array has to be there; one that lacks a member is waited for itself."""
_SETTLED = frozenset(
    {enums.MD_ARRAY_PHASE_READY, enums.MD_ARRAY_PHASE_REBUILDING, enums.MD_ARRAY_PHASE_ERROR}
)
type _Disks = Mapping[str, block_pb2.DiskSpec]


def find_target(config: Config | None) -> str:
    """The document's name of the array that the system is installed to; empty where that is a disk.

    It is the array whose link the request has in its path or its expression, as there may be no array that
    an expression could be true for. A mistake in a request is reported by the installation.
    """
    try:
        request = read_request(config) if config else None
    except UserError:
        request = None
    if config is None or request is None:
        return ""
    names = (document.name for document in config.find_all(RAIDArrayConfig))
    return next((name for name in names if _has_link(request.wanted, name)), "")


def make_link(name: str) -> str:
    """The link to the array of a document."""
    return f"{BY_ID}{make_name(name)}"


def _has_link(text: str, name: str) -> bool:
    return re.search(re.escape(make_link(name)) + r"(?![A-Za-z0-9_-])", text) is not None


async def describe_new_array(state: State, config: Config, areas: tuple[Area, ...]) -> str:
    """What the system would be installed to, where that is an array to be made; empty where it is there.

    UserError: when it would not be made, or firmware could not start from it.
    """
    name = find_target(config)
    disks = await read_disk_specs(state)
    if not name or any(make_link(name) in spec.symlinks for spec in disks.values()):
        return ""
    specs = make_specs(config, await state.list(kinds.DISCOVERED_VOLUME), disks)
    wanted = next(spec for spec in specs if spec.name == name)
    _check(wanted, disks)
    lines = [f"The system will be installed to the RAID array {name}, which is made first, of"]
    lines += [f"  {device}: {format_size(disks[_id(device)].size)}" for device in wanted.devices]
    return "\n".join((*lines, *describe_areas(areas, min(_list_sizes(wanted, disks)))))


def _check(wanted: WantedArray, disks: _Disks) -> None:
    where = f"RAIDArrayConfig {wanted.name}"
    if wanted.metadata != METADATA:
        raise UserError(
            f"the system is installed to it, and firmware can't start from metadata {wanted.metadata}",
            where=f"{where} metadata",
            hint=f"write {METADATA}, or leave it out",
        )
    parts = [device for device in wanted.devices if _id(device) not in disks]
    if parts:
        raise UserError(
            f"the system is installed to it, and firmware can't start from {parts[0]}, which is a partition",
            where=where,
            hint="let its selector mean whole disks only",
        )
    if len(wanted.devices) < MIN_MEMBERS:
        reasons = "; ".join(wanted.problems) or f"disks: {', '.join(sorted(disks))}"
        raise UserError(
            f"the system is installed to it, and {len(wanted.devices)} of {MIN_MEMBERS} blank disks match",
            where=where,
            hint=reasons,
        )
    if min(_list_sizes(wanted, disks)) < MINIMUM_SIZE:
        raise UserError(
            f"the smallest of its disks has less than {format_size(MINIMUM_SIZE)}, which the system needs",
            where=where,
            hint="let its selector mean larger ones",
        )


def _list_sizes(wanted: WantedArray, disks: _Disks) -> list[int]:
    return [disks[_id(device)].size for device in wanted.devices]


def _id(device: str) -> str:
    return device.removeprefix("/dev/")


async def wait_for_array(state: State, config: Config) -> None:
    """Wait until the array that the system is installed to is discovered, if it is one; UserError."""
    name = find_target(config)
    if not name:
        return
    where = f"RAIDArrayConfig {name}"
    with trio.move_on_after(TIMEOUT):
        status = (await wait_for(state, kinds.MD_ARRAY_STATUS, name, _is_settled)).spec
        if status.status == enums.MD_ARRAY_PHASE_ERROR:
            raise UserError(status.error, where=where)
        await refresh_discovery(state)
        return
    try:
        reason = (await state.get(kinds.MD_ARRAY_STATUS, name)).spec.error
    except NotFoundError:
        reason = "nothing is known of it"
    raise UserError(f"the array is not there after {TIMEOUT:.0f} s: {reason}", where=where)


def _is_settled(status: Resource[storage_pb2.MDArrayStatusSpec]) -> bool:
    return status.spec.status in _SETTLED
