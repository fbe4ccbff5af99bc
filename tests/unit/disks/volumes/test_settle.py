"""A volume's partition comes to be, and survives every power cut; nothing foreign is formatted."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, override

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.settle import settle
from talos.disks.volumes.volume import Limit, VolumePlace, VolumeProgress, WantedVolume
from talos.disks.volumes.whole_disk import settle_disk
from talos.system.block import ext4
from talos.system.block.blkid import Content
from talos.system.block.layout import GIB, MIB
from talos.system.errors import UserError
from talos.system.logging import Log

from .disks import DISK, FailingBlocks, MemoryBlocks, PowerCutError

STATE = WantedVolume(
    label="STATE", filesystem_label="STATE", minimum=100 * MIB, limit=lambda _: 100 * MIB, may_create=True
)
EPHEMERAL = WantedVolume(
    label="EPHEMERAL", filesystem_label="EPHEMERAL", minimum=2 * GIB, grow=True, may_create=True
)
LOG = Log(write=lambda _: None)
SUPERBLOCKS = {"xfs": b"XFSB\0", "ext4": bytes(1080) + b"\x53\xef"}
"""The begin of a device with one that libblkid refuses."""


def make_disk(size: int = 10 * GIB) -> MemoryBlocks:
    disk = MemoryBlocks(size=size)
    disk.install()
    return disk


async def run(disk: MemoryBlocks, wanted: WantedVolume) -> VolumePlace | None:
    return await settle(disk, wanted, [DISK], LOG, VolumeProgress())


async def test_both_volumes_on_a_fresh_disk() -> None:
    disk = make_disk()
    state, rest = await run(disk, STATE), await run(disk, EPHEMERAL)
    assert state is not None
    assert rest is not None
    assert (state.device, state.partition.size) == ("/dev/vda5", 100 * MIB)
    assert rest.device == "/dev/vda6"
    assert rest.partition.start + rest.partition.size == 10 * GIB - MIB
    assert state.content.name == rest.content.name == "xfs"
    disk.writes.clear()
    assert await run(disk, STATE) == state
    assert await run(disk, EPHEMERAL) is not None
    assert disk.writes == [], "what is whole is left alone"


async def test_progress_says_whether_a_disk_was_changed_and_how_far_a_failure_got() -> None:
    disk = make_disk()

    async def follow(wanted: WantedVolume) -> VolumeProgress:
        progress = VolumeProgress()
        with suppress(UserError):
            await settle(disk, wanted, [DISK], LOG, progress)
        return progress

    assert [(await follow(wanted)).changed for wanted in (STATE, STATE, EPHEMERAL)] == [True, False, True]
    assert (await follow(STATE)).phase == enums.VOLUME_PHASE_PREPARED
    disk.size = 20 * GIB
    assert [(await follow(EPHEMERAL)).changed for _ in range(2)] == [True, False]
    disk.contents[5] = Content(kind="filesystem", name="ext4")
    failed = VolumeProgress(phase=enums.VOLUME_PHASE_PROVISIONED, device="/dev/vda5", changed=False)
    assert await follow(STATE) == failed
    assert await follow(replace(STATE, label="none", may_create=False)) == VolumeProgress()


async def test_the_place_is_erased_before_it_gets_a_name() -> None:
    disk = make_disk()
    disk.stale = Content(kind="filesystem", name="xfs", label="old")
    await run(disk, STATE)
    assert [word.split()[0] for word in disk.writes] == ["erase", "append", "format", "mark"]


async def test_a_power_cut_anywhere_is_repaired_by_the_next_boot() -> None:
    for cut in count():
        disk = make_disk()
        disk.stale = Content(kind="filesystem", name="ext4", label="old")
        disk.cut = cut
        try:
            await run(disk, STATE)
            await run(disk, EPHEMERAL)
        except PowerCutError:
            disk.cut = -1
            for wanted in (STATE, EPHEMERAL):
                place = await run(disk, wanted)
                assert place is not None
                assert place.content.name == "xfs"
            assert not any(row.flags for row in disk.partitions.values())
            assert sorted(row.label for row in disk.partitions.values())[-2:] == ["META", "STATE"]
            assert len(disk.partitions) == 6, f"cut {cut}"
        else:
            assert cut > 10
            return


async def test_a_second_cut_while_the_first_is_repaired() -> None:
    for first in range(12):
        for second in range(8):
            disk = make_disk()
            for disk.cut in (first, second):
                try:
                    await run(disk, STATE)
                except PowerCutError:
                    continue
            disk.cut = -1
            place = await run(disk, STATE)
            assert place is not None
            assert place.content.name == "xfs"


@pytest.mark.parametrize("name", ["ext4", "vfat"])
async def test_what_is_foreign_is_never_formatted(name: str) -> None:
    disk = make_disk()
    await run(disk, STATE)
    disk.contents[5] = Content(kind="filesystem", name=name, label="mine")
    disk.writes.clear()
    with pytest.raises(UserError, match=rf"/dev/vda5 holds {name} \(mine\), no xfs.*talosctl wipe disk vda5"):
        await run(disk, STATE)
    assert disk.writes == []


async def test_unknown_content_is_never_formatted() -> None:
    disk = make_disk()
    await run(disk, STATE)
    disk.contents[5] = Content()
    disk.heads[5] = bytes(512) + b"x"
    disk.writes.clear()
    with pytest.raises(UserError, match="/dev/vda5 holds unrecognised data"):
        await run(disk, STATE)
    assert disk.writes == []


@pytest.mark.parametrize("dirty", [False, True])
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
async def test_a_broken_superblock_is_repaired_not_formatted(filesystem: str, *, dirty: bool) -> None:
    disk, wanted = make_disk(), replace(STATE, filesystem=filesystem)
    await run(disk, wanted)
    disk.dirty_log = dirty
    disk.contents[5] = Content()
    disk.heads[5] = SUPERBLOCKS[filesystem]
    disk.writes.clear()
    place = await run(disk, wanted)
    assert place is not None
    assert place.content.name == filesystem
    assert disk.writes == ["repair /dev/vda5", "repair /dev/vda5 without its log"][: 1 + dirty]


@pytest.mark.parametrize(("made", "wanted"), [("xfs", "ext4"), ("ext4", "xfs")])
async def test_a_volume_of_another_type_is_never_formatted_or_repaired(made: str, wanted: str) -> None:
    disk = make_disk()
    await run(disk, replace(STATE, filesystem=made))
    disk.writes.clear()
    with pytest.raises(UserError, match=rf"/dev/vda5 holds {made} \(STATE\), no {wanted}"):
        await run(disk, replace(STATE, filesystem=wanted))
    disk.contents[5], disk.heads[5] = Content(), SUPERBLOCKS[made]
    with pytest.raises(UserError, match="/dev/vda5 holds unrecognised data: it is not formatted"):
        await run(disk, replace(STATE, filesystem=wanted))
    assert disk.writes == []


async def test_what_was_wiped_is_made_anew() -> None:
    disk = make_disk()
    await run(disk, STATE)
    disk.contents[5] = Content()
    disk.writes.clear()
    assert await run(disk, STATE) is not None
    assert disk.writes == ["mark 5 unfinished", "format /dev/vda5", "mark 5 finished"]


async def test_without_a_config_nothing_is_made_but_what_was_begun_is_ended() -> None:
    disk = make_disk()
    watching = WantedVolume(label="STATE", filesystem_label="STATE")
    assert await run(disk, watching) is None
    await run(disk, STATE)
    disk.contents[5] = Content()
    disk.writes.clear()
    assert await run(disk, watching) is None
    assert disk.writes == []


async def test_it_grows_with_the_disk_and_a_hole_is_filled() -> None:
    disk = make_disk()
    await run(disk, STATE)
    await run(disk, EPHEMERAL)
    disk.size = 20 * GIB
    grown = await run(disk, EPHEMERAL)
    assert grown is not None
    assert grown.partition.start + grown.partition.size == 20 * GIB - MIB
    assert grown.content.filesystem_size < grown.partition.size
    start = disk.partitions[5].start
    del disk.partitions[5], disk.contents[5]
    again = await run(disk, STATE)
    assert again is not None
    assert (again.partition.start, again.partition.number) == (start, 7)


async def test_what_can_not_grow_is_used_as_it_is() -> None:
    disk = FailingBlocks(size=10 * GIB)
    disk.install()
    await run(disk, EPHEMERAL)
    disk.size = 20 * GIB
    place = await run(disk, EPHEMERAL)
    assert place is not None
    assert place.partition.size < 10 * GIB


def up_to(limit: Limit) -> WantedVolume:
    return replace(EPHEMERAL, limit=limit)


@pytest.mark.parametrize(("limit", "size"), [(3 * GIB, 3 * GIB), (3 * GIB + 1, 3 * GIB + MIB), (1, 2 * GIB)])
async def test_limits_are_in_whole_mebibytes_and_not_below_the_minimum(limit: int, size: int) -> None:
    disk, wanted = make_disk(), up_to(lambda _: limit)
    for _ in range(2):
        place = await run(disk, wanted)
        assert place is not None
        assert place.partition.size == disk.partitions[5].size == size
    grown_place = await run(disk, up_to(lambda whole: min(whole, 4 * GIB + 1)))
    assert grown_place is not None
    assert grown_place.partition.size == disk.partitions[5].size == 4 * GIB


async def test_a_limit_is_a_part_of_what_is_free_and_later_of_both() -> None:
    disk, given = make_disk(), list[int]()

    def halve(size: int) -> int:
        given.append(size)
        return size // 2

    for _ in range(2):
        await run(disk, up_to(halve))
    start = disk.partitions[5].start
    assert given == [10 * GIB - MIB - start] * 2
    assert disk.partitions[5].size == -(-given[0] // 2 // MIB) * MIB


async def test_only_what_is_whole_and_configured_grows() -> None:
    disk = make_disk()
    await run(disk, EPHEMERAL)
    disk.size = 20 * GIB
    assert await run(disk, replace(EPHEMERAL, may_create=False)) is not None
    await disk.mark(DISK, 5, finished=False)
    disk.writes.clear()
    place = await run(disk, EPHEMERAL)
    assert place is not None
    assert not place.partition.flags
    assert disk.writes == ["format /dev/vda5", "mark 5 finished"]
    await run(disk, EPHEMERAL)
    assert disk.writes[2:] == ["grow 5"]


async def test_a_disk_without_room_is_named() -> None:
    text = r"EPHEMERAL: 2 GiB are needed, the largest free part of /dev/vda has 1\.9 GiB"
    with pytest.raises(UserError, match=text):
        await run(make_disk(4 * GIB), EPHEMERAL)


class Disks:
    """Several disks in memory, of which each thinks that it is the only one."""

    def __init__(self, **disks: MemoryBlocks) -> None:
        self._disks = disks

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(device: str, *arguments: Any, **options: Any) -> Any:
            place = len("/dev/vda")
            disk = self._disks[device[len("/dev/") : place]]
            return await getattr(disk, name)(DISK + device[place:], *arguments, **options)

        return call

    def name_partition(self, disk: str, number: int) -> str:
        return f"{disk}{number}"


FOREIGN = Content(kind="filesystem", name="ext4", label="mine")


@pytest.mark.parametrize(
    ("disks", "taken", "problem"),
    [
        ({"vda": MemoryBlocks(whole=FOREIGN), "vdb": MemoryBlocks(), "vdc": MemoryBlocks()}, "/dev/vdb1", ""),
        ({"vda": MemoryBlocks(size=GIB), "vdb": MemoryBlocks()}, "/dev/vdb1", ""),
        (
            {"vda": MemoryBlocks(size=GIB), "vdb": MemoryBlocks(whole=FOREIGN)},
            "",
            "2 GiB are needed, the largest free part of /dev/vda, /dev/vdb has 1022 MiB",
        ),
        (
            {"vda": MemoryBlocks(whole=FOREIGN), "vdb": MemoryBlocks(whole=replace(FOREIGN, name="vfat"))},
            "",
            "/dev/vda holds ext4, no GPT: it is not written over",
        ),
    ],
)
async def test_the_first_disk_with_room_is_taken(
    disks: dict[str, MemoryBlocks], taken: str, problem: str
) -> None:
    blocks: Any = Disks(**disks)

    async def settle_there() -> VolumePlace | None:
        return await settle(blocks, EPHEMERAL, [f"/dev/{name}" for name in disks], LOG, VolumeProgress())

    if problem:
        with pytest.raises(UserError, match=problem):
            await settle_there()
        return
    place = await settle_there()
    assert place is not None
    assert (place.device, place.source) == (taken, taken)
    assert await settle_there() == place, "it is found on its disk"


async def test_what_is_in_a_raw_volume_is_its_owners() -> None:
    disk, raw = make_disk(), replace(STATE, filesystem="")
    disk.stale = FOREIGN
    for writes in (["append STATE", "mark 5 finished"], []):
        place = await run(disk, raw)
        assert place is not None
        assert [word for word in disk.writes if not word.startswith("erase")] == writes
        disk.contents[5] = FOREIGN
        disk.writes.clear()


async def test_swap_is_made_where_there_is_swap_or_nothing() -> None:
    disk, swap = make_disk(), replace(STATE, filesystem="swap")
    await run(disk, swap)
    disk.contents[5] = Content(kind="other", name="swap")
    assert await run(disk, swap) is not None
    disk.contents[5], disk.heads[5] = Content(), b"XFSB\0"
    with pytest.raises(UserError, match="/dev/vda5 holds unrecognised data"):
        await run(disk, swap)


async def test_a_superblock_that_stays_broken_is_kept() -> None:
    class Damaged(MemoryBlocks):
        @override
        async def repair(self, device: str, filesystem: str, *, force: bool) -> bool:
            self.write(f"repair {device}")
            return False

    disk = Damaged()
    disk.install()
    await run(disk, STATE)
    disk.contents[5], disk.heads[5] = Content(), b"XFSB\0"
    disk.writes.clear()
    with pytest.raises(UserError, match="/dev/vda5 holds unrecognised data: it is not formatted"):
        await run(disk, STATE)
    assert disk.writes == ["repair /dev/vda5"] * 2


async def test_two_partitions_of_one_name() -> None:
    disk = make_disk()
    await run(disk, STATE)
    await run(disk, EPHEMERAL)
    disk.partitions[6] = disk.partitions[6].__replace__(label="STATE")
    with pytest.raises(UserError, match="several partitions have this label: /dev/vda5, /dev/vda6"):
        await run(disk, STATE)


DATA = WantedVolume(label="u-data", minimum=100 * MIB, may_create=True)
BLANK = Content()


async def test_a_blank_disk_gets_a_partition_table() -> None:
    disk = MemoryBlocks(size=GIB, whole=BLANK)
    place = await run(disk, DATA)
    assert place is not None
    assert (place.device, place.partition.size) == ("/dev/vda1", GIB - 2 * MIB)
    assert disk.writes[0] == "make table"


@pytest.mark.parametrize("provide", [settle, settle_disk])
async def test_what_is_on_a_disk_is_not_written_over(
    provide: Callable[..., Awaitable[VolumePlace | None]],
) -> None:
    for whole, head, reason in (
        (Content(kind="filesystem", name="ext4", label="mine"), bytes(4096), "/dev/vda holds ext4"),
        (BLANK, b"a key's header".ljust(4096, b"x"), "/dev/vda holds unrecognised data"),
    ):
        disk = MemoryBlocks(size=GIB, whole=whole, heads={0: head})
        with pytest.raises(UserError, match=f"u-data: {reason}.*talosctl wipe disk vda"):
            await provide(disk, DATA, [DISK], LOG, VolumeProgress())
        assert disk.writes == []


@pytest.mark.parametrize("found", [Content(), Content(kind="filesystem", name="ext4")])
async def test_an_ext4_that_was_being_made_on_a_whole_disk_is_made_anew(found: Content) -> None:
    disk = MemoryBlocks(size=GIB, whole=found, heads={0: ext4.MARK + b"descriptors"})
    place = await settle_disk(disk, replace(DATA, filesystem="ext4"), [DISK], LOG, VolumeProgress())
    assert place.content.name == "ext4"
    assert disk.writes == ["format /dev/vda"]


async def test_a_whole_disk_is_formatted_once() -> None:
    disk = MemoryBlocks(size=GIB, whole=BLANK)
    place = await settle_disk(disk, DATA, [DISK], LOG, VolumeProgress())
    assert (place.device, place.partition.size, place.content.name) == (DISK, GIB, "xfs")
    await settle_disk(disk, DATA, [DISK], LOG, VolumeProgress())
    assert disk.writes == ["format /dev/vda"]
    with pytest.raises(UserError, match="several disks match: /dev/vda, /dev/vdb"):
        await settle_disk(disk, DATA, [DISK, "/dev/vdb"], LOG, VolumeProgress())
