"""The array with the system is recognised before it runs, and one that firmware can't start from is named."""

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import storage_pb2
from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec, DiskSpec
from talos.disks.raid.system import find_boot_obstacle, has_system, is_system_expected
from talos.resource import kinds
from talos.resource.resource import Resource, make_resource
from talos.system.block.md import format_uuid

from .heads import SYSTEM, make_head
from .memory_mdadm import UUID, make_members

MEMBERS = ("vda", "vdb")
type Phase = enums.StorageMDArrayPhase


@pytest.mark.parametrize("sector_size", [512, 4096])
def test_a_system_is_recognised_by_its_partition(sector_size: int) -> None:
    assert has_system(make_head(*SYSTEM, sector_size=sector_size))
    assert has_system(make_head("EFI", "META", sector_size=sector_size))
    assert not has_system(make_head("data", sector_size=sector_size))
    assert not has_system(bytes(1 << 20))


async def is_expected(
    head: bytes, *, array: bool = False, parts: bool = False, status: Phase | None = None, uuid: str = UUID
) -> bool:
    memory = make_members(*MEMBERS)
    memory.heads["/dev/vdb"] = head
    volumes = memory.discover(*MEMBERS)
    disks = {name: DiskSpec(dev_path=f"/dev/{name}") for name in MEMBERS}
    if array:
        disks["md0"] = DiskSpec(dev_path="/dev/md0", secondary_disks=MEMBERS)
    if parts:
        spec = DiscoveredVolumeSpec(parent="md0", dev_path="/dev/md0p4")
        volumes.append(make_resource(kinds.DISCOVERED_VOLUME, "md0p4", spec))
    statuses: list[Resource[storage_pb2.MDArrayStatusSpec]] = []
    if status is not None:
        array_status = storage_pb2.MDArrayStatusSpec(uuid=format_uuid(uuid), status=status)
        statuses.append(make_resource(kinds.MD_ARRAY_STATUS, "data", array_status))
    return await is_system_expected(volumes, disks, statuses, memory.read_head)


async def test_a_system_is_expected_until_its_partitions_are_discovered() -> None:
    head = make_head(*SYSTEM)
    assert await is_expected(head)
    assert await is_expected(head, status=enums.MD_ARRAY_PHASE_WAITING)
    assert await is_expected(head, array=True, status=enums.MD_ARRAY_PHASE_READY)
    assert not await is_expected(head, array=True, parts=True, status=enums.MD_ARRAY_PHASE_READY)
    assert not await is_expected(make_head("data"))


async def test_an_array_that_does_not_start_is_not_waited_for() -> None:
    head, failed = make_head(*SYSTEM), enums.MD_ARRAY_PHASE_ERROR
    assert not await is_expected(head, status=failed)
    assert await is_expected(head, status=failed, uuid=UUID.replace("6", "7"))


READY, REBUILDING = enums.MD_ARRAY_PHASE_READY, enums.MD_ARRAY_PHASE_REBUILDING


@pytest.mark.parametrize(
    ("status", "metadata", "whole", "words"),
    [
        (READY, "1.0", True, ""),
        (REBUILDING, "1.0", True, ""),
        (READY, "1.0", False, "of partitions"),
        (READY, "1.2", True, "with metadata 1.2: firmware can start from members with 1.0 only"),
        (READY, "", True, "of an unknown version"),
        (enums.MD_ARRAY_PHASE_UNKNOWN, "1.0", True, "is not used: it is no running mirror"),
    ],
)
def test_what_firmware_can_not_start_from(status: Phase, metadata: str, *, whole: bool, words: str) -> None:
    spec = storage_pb2.MDArrayStatusSpec(status=status, metadata=metadata)
    found = find_boot_obstacle(spec, whole_disks=whole)
    assert (words in found) if words else not found


def test_the_reason_of_an_array_that_has_failed_is_passed_on() -> None:
    spec = storage_pb2.MDArrayStatusSpec(status=enums.MD_ARRAY_PHASE_ERROR, error="no such device")
    assert find_boot_obstacle(spec, whole_disks=True) == "is a RAID array that is not used: no such device"
