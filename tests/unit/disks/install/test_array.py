"""The array that a system is installed to: which one it is, what is refused, and waiting for it."""

import pytest
from tests.unit.disks.lvm.memory_lvm import make_config
from tests.unit.disks.raid.memory_mdadm import make_document
from trio.testing import MockClock

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import storage_pb2
from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec, DiscoveryRefreshStatusSpec, DiskSpec
from talos.config.model import Config
from talos.disks.disk import read_disks
from talos.disks.install.array import describe_new_array, find_target, make_link, wait_for_array
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.block.layout import GIB, INSTALLED, MINIMUM_SIZE
from talos.system.block.md import MEMBER
from talos.system.errors import UserError

LINK = "/dev/disk/by-id/md-name-talos:data"
UUID = "6a3f1d52:9c044b7e:8f610d2a:7c5e9b13"


def make_request(match: str) -> str:
    return (
        "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n"
        f"provisioning: {{diskSelector: {{match: '{match}'}}}}\n"
    )


def make(array: str = "", match: str = f'"{LINK}" in disk.symlinks') -> Config:
    return make_config("---\n".join((array or make_document(), make_request(match))))


async def make_state(*names: str, size: int = 10 * GIB) -> MemoryState:
    state = MemoryState()
    for name in names:
        await put(state, kinds.DISK, name, DiskSpec(dev_path=f"/dev/{name}", size=size))
        await put(state, kinds.DISCOVERED_VOLUME, name, DiscoveredVolumeSpec(dev_path=f"/dev/{name}"))
    return state


@pytest.mark.parametrize(
    ("match", "name"),
    [
        (f'"{LINK}" in disk.symlinks', "data"),
        (f'disk.size > 1u && disk.symlinks.exists(link, link == "{LINK}")', "data"),
        (f'"{LINK}2" in disk.symlinks', "data2"),
        (f'"{LINK}-3" in disk.symlinks', ""),
        ('disk.dev_path == "/dev/md0"', ""),
        ("disk.size > 1u", ""),
    ],
)
def test_it_is_the_one_whose_link_is_named(match: str, name: str) -> None:
    documents = "---\n".join((make_document(), make_document("data2"), make_request(match)))
    assert find_target(make_config(documents)) == name
    assert make_link("data") == LINK


def test_without_a_request_or_with_a_wrong_one_there_is_none() -> None:
    assert not find_target(None)
    assert not find_target(make_config(make_document()))
    assert not find_target(make(match="disk.size >"))
    assert not find_target(make_config(make_request(f'"{LINK}" in disk.symlinks')))


async def test_one_that_is_to_be_made_is_described() -> None:
    text = await describe_new_array(await make_state("vda", "vdb"), make(), INSTALLED)
    lines = text.splitlines()
    assert lines[0] == "The system will be installed to the RAID array data, which is made first, of"
    assert lines[1:3] == ["  /dev/vda: 10 GiB", "  /dev/vdb: 10 GiB"]
    assert "META 1 MiB" in lines[3]


async def test_one_that_is_there_is_a_disk_as_others() -> None:
    state = await make_state("vda", "vdb")
    await put(state, kinds.DISK, "md0", DiskSpec(dev_path="/dev/md0", symlinks=[LINK]))
    assert await describe_new_array(state, make(), INSTALLED) == ""
    assert await describe_new_array(state, make(match="disk.size > 1u"), INSTALLED) == ""


@pytest.mark.parametrize(
    ("names", "size", "array", "words"),
    [
        (("vda", "vdb"), 10 * GIB, make_document(metadata="1.2"), "can't start from metadata 1.2"),
        (("vda",), 10 * GIB, "", "1 of 2 blank disks match"),
        (("vda", "vdb"), MINIMUM_SIZE - 1, "", "the smallest of its disks has less than"),
        (("vda", "vdb"), 10 * GIB, make_document(match='disk.dev_path == "/dev/vdb"'), "1 of 2 blank"),
    ],
)
async def test_what_can_not_have_a_system_is_refused(
    names: tuple[str, ...], size: int, array: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        await describe_new_array(await make_state(*names, size=size), make(array), INSTALLED)


async def put_status(
    state: MemoryState, status: enums.StorageMDArrayPhase, error: str = "", metadata: str = "1.0"
) -> None:
    spec = storage_pb2.MDArrayStatusSpec(status=status, error=error, metadata=metadata, uuid=UUID)
    await put(state, kinds.MD_ARRAY_STATUS, "data", spec)


async def test_it_is_waited_for(autojump_clock: MockClock) -> None:
    del autojump_clock
    state = await make_state("vda", "vdb")
    await wait_for_array(state, make(match="disk.size > 1u"))
    with pytest.raises(UserError, match="the array is not there after 90 s: nothing is known of it"):
        await wait_for_array(state, make())
    await put_status(state, enums.MD_ARRAY_PHASE_WAITING, "matched 1, required 2")
    with pytest.raises(UserError, match="after 90 s: matched 1, required 2"):
        await wait_for_array(state, make())
    await put_status(state, enums.MD_ARRAY_PHASE_ERROR, "no such device")
    with pytest.raises(UserError, match="RAIDArrayConfig data: no such device"):
        await wait_for_array(state, make())
    await put_status(state, enums.MD_ARRAY_PHASE_READY)
    await put(state, *ids.DISCOVERY_REFRESH_STATUS, DiscoveryRefreshStatusSpec(request=1))
    await wait_for_array(state, make())


async def test_a_system_is_installed_to_the_array_and_never_to_a_half() -> None:
    state = await make_state("vda", "vdb")
    for name in ("vda", "vdb"):
        spec = DiscoveredVolumeSpec(dev_path=f"/dev/{name}", name=MEMBER)
        await put(state, kinds.DISCOVERED_VOLUME, name, spec)
    links = [LINK, f"/dev/disk/by-id/md-uuid-{UUID}"]
    array = DiskSpec(dev_path="/dev/md0", size=9 * GIB, symlinks=links, secondary_disks=["vda", "vdb"])
    await put(state, kinds.DISK, "md0", array)

    async def list_obstacles() -> list[str]:
        return [disk.obstacle for disk in await read_disks(state)]

    half = "is a member of the RAID array /dev/md0"
    assert await list_obstacles() == ["is a RAID array that is not examined yet", half, half]
    await put_status(state, enums.MD_ARRAY_PHASE_READY)
    assert await list_obstacles() == ["", half, half]
    await put_status(state, enums.MD_ARRAY_PHASE_READY, metadata="1.2")
    assert "metadata 1.2" in (await list_obstacles())[0]
    array.secondary_disks[:] = ["vda1", "vdb1"]
    await put(state, kinds.DISK, "md0", array)
    await put_status(state, enums.MD_ARRAY_PHASE_READY)
    assert (await list_obstacles())[0].startswith("is a RAID array of partitions")
