"""The array with the system: how it is recognised before it runs, and whether firmware can start from it.

Metadata 1.0 is at the end of a member, which so begins as a plain system disk does: with the boot loader, the
partition table and EFI. Firmware and boot loaders read one member, as if there was no array.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from talos.api.definitions import block_pb2, storage_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.resource.resource import Resource
from talos.system.block.gpt import SECTOR_SIZES, list_rows
from talos.system.block.layout import META
from talos.system.block.md import ARRAY, MEMBER, format_uuid

METADATA = "1.0"

type ReadHead = Callable[[str], Awaitable[bytes]]
"""Reads the first bytes of a device; OSError."""
type Statuses = Sequence[Resource[storage_pb2.MDArrayStatusSpec]]


def map_members(disks: Mapping[str, block_pb2.DiskSpec]) -> Mapping[str, str]:
    """The id of the array that each device is a member of, by the device's."""
    return {
        member: name
        for name, spec in disks.items()
        if spec.dev_path.startswith(ARRAY)
        for member in spec.secondary_disks
    }


def has_system(head: bytes) -> bool:
    """Whether the first bytes of a member are those of a system disk, or of one that is being installed."""
    return any(row.label == META.label for size in SECTOR_SIZES for row in list_rows(head, size))


async def holds_system(devices: Collection[str], read_head: ReadHead) -> bool:
    """Whether one of these members begins as a system disk. One that is being filled does so later."""
    for device in devices:
        try:
            if has_system(await read_head(device)):
                return True
        except OSError:  # what can't be read is no system's
            continue
    return False


async def is_system_expected(
    volumes: Sequence[Resource[block_pb2.DiscoveredVolumeSpec]],
    disks: Mapping[str, block_pb2.DiskSpec],
    statuses: Statuses,
    read_head: ReadHead,
) -> bool:
    """Whether there is an array with a system whose partitions are not discovered, and which may still start.

    As long as it does not run nothing on the machine looks installed.
    """
    failed = {status.spec.uuid for status in statuses if status.spec.status == enums.MD_ARRAY_PHASE_ERROR}
    known = {volume.spec.parent for volume in volumes if volume.spec.parent}
    arrays = map_members(disks)
    waiting = [
        volume.spec.dev_path
        for volume in volumes
        if volume.spec.name == MEMBER
        and arrays.get(volume.id) not in known
        and format_uuid(volume.spec.uuid) not in failed
    ]
    return await holds_system(waiting, read_head)


def find_boot_obstacle(status: storage_pb2.MDArrayStatusSpec, *, whole_disks: bool) -> str:
    """Why firmware can't start from the members of an array; empty when it can."""
    if status.status not in (enums.MD_ARRAY_PHASE_READY, enums.MD_ARRAY_PHASE_REBUILDING):
        return f"is a RAID array that is not used: {status.error or 'it is no running mirror'}"
    if status.metadata != METADATA:
        version = status.metadata or "of an unknown version"
        return (
            f"is a RAID array with metadata {version}: firmware can start from members with {METADATA} only"
        )
    return "" if whole_disks else "is a RAID array of partitions: firmware can start from whole disks only"
