"""Detecting an installation and its disk. META is written last and marks it as complete.

STATE is made by the installed system, so a disk that has it was complete: its META is damaged, not missing.
What erases a disk erases both of them first.
"""

from collections.abc import Iterable

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.resource import ids
from talos.resource.kinds import VOLUME_STATUS
from talos.resource.state import NotFoundError, State
from talos.system.block.blkid import TALOS_META
from talos.system.block.layout import META, STATE


async def is_installed(state: State) -> bool:
    """Whether a disk carries the mark of an installation, and it can be used."""
    try:
        status = await state.get(VOLUME_STATUS, META.label)
    except NotFoundError:
        return False
    return status.spec.phase == enums.VOLUME_PHASE_READY


async def find_system_disk(state: State) -> str:
    """The id of the disk with the system, such as ``vda``; empty when there is none."""
    try:
        return (await state.get(*ids.SYSTEM_DISK)).spec.disk_id
    except NotFoundError:
        return ""


def find_installed(volumes: Iterable[block_pb2.DiscoveredVolumeSpec]) -> list[tuple[str, str]]:
    """The disks that carry an installation, by device and id, in order."""
    found = list(volumes)
    used = {spec.parent for spec in found if spec.partition_label == STATE.label and spec.name}
    marked = [
        spec
        for spec in found
        if spec.partition_label == META.label
        and (spec.name == TALOS_META or (not spec.name and spec.parent in used))
    ]
    return sorted({(spec.parent_dev_path, spec.parent) for spec in marked})
