"""From documents to commands: arrays are made, rebuilt and grown, and nothing is written over."""

from dataclasses import dataclass, field, replace

import pytest

from talos.disks.raid.plan import SYNCING
from talos.disks.raid.provide import ProvisionResult, RaidProvider
from talos.disks.raid.specs import FoundMember, WantedArray
from talos.system.logging import Log

from .memory_mdadm import FAULTY, SPARE, MemoryMdadm, find_member, make_array, make_member

CREATED = (
    "--create /dev/md0 --name=data --homehost=talos --run --assume-clean --level=1 --raid-devices=2 "
    "--metadata=1.0 --bitmap=none /dev/vdb /dev/vdc"
)
BITMAP = "--grow /dev/md0 --bitmap=internal"
CLEANED = "--manage /dev/md0 --fail detached --remove detached --remove failed"


@dataclass
class World:
    memory: MemoryMdadm = field(default_factory=MemoryMdadm)
    lines: list[str] = field(default_factory=list[str])

    async def provide(self, *devices: str, members: tuple[FoundMember, ...] = ()) -> ProvisionResult:
        wanted = WantedArray(name="data", devices=tuple(f"/dev/{device}" for device in devices))
        memory = self.memory
        provider = RaidProvider(memory.mdadm, memory.read_arrays, memory.reader, Log(write=self.lines.append))
        return await provider.provide(wanted, members)


async def test_an_array_is_made_of_blank_disks_and_then_left_alone() -> None:
    world = World()
    provided = await world.provide("vdb", "vdc")
    assert world.memory.calls == [CREATED, BITMAP]
    assert world.memory.blank == ["/dev/md0"]
    assert provided.changed
    assert provided.error == ""
    again = await world.provide("vdb", "vdc")
    assert world.memory.calls == [CREATED, BITMAP]
    assert not again.changed


@pytest.mark.parametrize("devices", [(), ("vdb",)])
async def test_too_few_disks_are_waited_for(devices: tuple[str, ...]) -> None:
    world = World()
    provided = await world.provide(*devices)
    text = f"waiting for enough member disks: matched {len(devices)}, required 2"
    assert provided.plan.waiting == text
    assert not world.memory.calls


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (
            MemoryMdadm(contents={"/dev/vdc": "xfs"}),
            "data: /dev/vdc holds xfs: it is not written over (if it may be lost: talosctl wipe disk vdc)",
        ),
        (MemoryMdadm(heads={"/dev/vdb": b"data"}), "/dev/vdb holds unrecognised data"),
    ],
)
async def test_what_is_written_meanwhile_is_not_written_over(memory: MemoryMdadm, words: str) -> None:
    """mdadm itself would: what udevd found may be older."""
    world = World(memory)
    provided = await world.provide("vdb", "vdc")
    assert words in provided.error
    assert provided.failed
    assert not memory.calls


async def test_the_next_free_device_is_taken() -> None:
    other = replace(make_array(make_member("vde"), make_member("vdf", 1)), uuid="other")
    world = World(MemoryMdadm(arrays=[other]))
    await world.provide("vdb", "vdc")
    assert world.memory.calls == [call.replace("/dev/md0", "/dev/md1") for call in (CREATED, BITMAP)]


async def test_no_array_is_made_beside_half_of_one() -> None:
    world = World()
    provided = await world.provide("vdb", "vdc", "vdd", members=(find_member("vdb"),))
    assert provided.plan.waiting == (
        '/dev/vdb is a member of the array "talos:data", which does not run '
        "(if it may be lost: talosctl wipe disk vdb)"
    )
    assert not world.memory.calls


async def test_a_new_disk_replaces_one_that_failed() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1, FAULTY))
    world = World(MemoryMdadm(arrays=[array]))
    both = find_member("vdb"), find_member("vdc")
    await world.provide("vdb", "vdc", members=both)
    assert not world.memory.calls, "it stays shown until there is another"
    await world.provide("vdb", "vdc", "vdd", members=both)
    assert world.memory.calls == [CLEANED, "--manage /dev/md0 --add /dev/vdd"]
    assert world.memory.arrays[0].slots == 2


async def test_a_bitmap_for_which_there_is_no_room_holds_nothing_back() -> None:
    array = replace(make_array(make_member("vdb"), slots=2), has_bitmap=False)
    world = World(MemoryMdadm(arrays=[array], failing={"--grow": "no room for bitmap"}))
    provided = await world.provide("vdb")
    assert provided.error == "/dev/md0: mdadm --grow ended with 1: no room for bitmap"
    await world.provide("vdb", "vdc", members=(find_member("vdb"),))
    assert world.memory.calls[1:] == ["--manage /dev/md0 --add /dev/vdc"]


async def test_a_disk_that_is_gone_is_taken_out() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1, is_present=False))
    world = World(MemoryMdadm(arrays=[array]))
    await world.provide("vdb")
    assert world.memory.calls == [CLEANED]
    assert world.memory.arrays[0].missing == 1


async def test_a_disk_that_comes_back_is_added_again() -> None:
    world = World(MemoryMdadm(arrays=[make_array(make_member("vdb"), slots=2)]))
    await world.provide("vdb", "vdc", members=(find_member("vdb"), find_member("vdc")))
    assert world.memory.calls == ["--examine /dev/vdc", "--manage /dev/md0 --re-add /dev/vdc"]


async def test_a_disk_that_was_used_alone_is_not_written_over() -> None:
    memory = MemoryMdadm(arrays=[make_array(make_member("vdb"), slots=2)], states={"/dev/vdc": b".A"})
    world = World(memory)
    both = find_member("vdb"), find_member("vdc")
    provided = await world.provide("vdb", "vdc", members=both)
    assert provided.error == (
        "data: /dev/vdc was a member of this array, and was used without the others: it is not written over "
        "(if it may be lost: talosctl wipe disk vdc)"
    )
    assert memory.calls == ["--examine /dev/vdc"]
    await world.provide("vdb", "vdc", "vdd", members=both)
    assert memory.calls[1:] == ["--manage /dev/md0 --add /dev/vdd"], "a blank one is taken all the same"


async def test_a_disk_that_has_been_replaced_is_not_taken_back() -> None:
    world = World(MemoryMdadm(arrays=[make_array(make_member("vdb"), make_member("vdd", 1))]))
    provided = await world.provide("vdb", "vdc", "vdd", members=(find_member("vdb"), find_member("vdc")))
    (problem,) = provided.plan.problems
    assert problem == (
        "/dev/vdc was a member of this array, which is complete without it "
        "(if it may be lost: talosctl wipe disk vdc)"
    )
    assert not world.memory.calls


async def test_a_member_of_another_array_is_not_added() -> None:
    world = World(MemoryMdadm(arrays=[make_array(make_member("vdb"), slots=2)]))
    foreign = find_member("vdc", uuid="other", name="other:x")
    provided = await world.provide("vdb", "vdc", members=(find_member("vdb"), foreign))
    assert not world.memory.calls
    assert 'is a member of the array "other:x", which does not run' in provided.plan.problems[0]


async def test_one_more_disk_grows_it() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1))
    world = World(MemoryMdadm(arrays=[array]))
    await world.provide("vdb", "vdc", "vdd")
    added = ["--manage /dev/md0 --add /dev/vdd", "--grow /dev/md0 --raid-devices=3"]
    assert world.memory.calls == added
    world.memory.finish_sync()
    await world.provide("vdb", "vdc", "vdd")
    assert world.memory.calls == added


async def test_a_growth_that_was_cut_off_is_completed() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1), make_member("vdd", None, SPARE), slots=2)
    world = World(MemoryMdadm(arrays=[array]))
    await world.provide("vdb", "vdc", "vdd")
    assert world.memory.calls == ["--grow /dev/md0 --raid-devices=3"]


async def test_one_that_is_rebuilt_is_waited_for() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1, SPARE), action="recover")
    world = World(MemoryMdadm(arrays=[array]))
    assert (await world.provide("vdb", "vdc")).plan.waiting == ""
    assert (await world.provide("vdb", "vdc", "vdd")).plan.waiting == SYNCING
    assert not world.memory.calls


async def test_a_selector_that_selects_less_changes_nothing() -> None:
    array = make_array(make_member("vdb"), make_member("vdc", 1))
    world = World(MemoryMdadm(arrays=[array]))
    for devices in (("vdb",), ()):
        provided = await world.provide(*devices, members=(find_member("vdb"), find_member("vdc")))
        assert provided.plan.array == array
    assert not world.memory.calls


async def test_of_two_arrays_none_is_changed() -> None:
    one = make_array(make_member("vdb"), make_member("vdd", 1))
    two = replace(make_array(make_member("vdc"), device="/dev/md1"), uuid="other")
    world = World(MemoryMdadm(arrays=[one, two]))
    provided = await world.provide("vdb", "vdc")
    assert "its selector means members of several arrays: /dev/md0, /dev/md1" in provided.error
    assert not provided.failed


async def test_an_array_of_another_level_is_not_changed() -> None:
    world = World(MemoryMdadm(arrays=[replace(make_array(make_member("vdb")), level="raid5")]))
    provided = await world.provide("vdb", "vdc")
    assert "/dev/md0 is of level raid5, not raid1: it is not changed" in provided.error
    assert not world.memory.calls


async def test_a_program_that_fails_is_one_line() -> None:
    array = make_array(make_member("vdb"), slots=2)
    world = World(
        MemoryMdadm(arrays=[array], failing={"--manage": "/dev/vdc not large enough to join array"})
    )
    provided = await world.provide("vdb", "vdc")
    assert provided.error == "/dev/md0: mdadm --manage ended with 1: /dev/vdc not large enough to join array"
    assert provided.failed
