"""A volume's partition comes to be, and survives every power cut; nothing foreign is formatted."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.settle import VolumePlace, VolumeProgress, WantedVolume, settle
from talos.disks.volumes.whole_disk import settle_disk
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
async def test_a_broken_superblock_is_repaired_not_formatted(*, dirty: bool) -> None:
    disk = make_disk()
    await run(disk, STATE)
    disk.dirty_log = dirty
    disk.contents[5] = Content()
    disk.heads[5] = b"XFSB\0"
    disk.writes.clear()
    place = await run(disk, STATE)
    assert place is not None
    assert place.content.name == "xfs"
    assert disk.writes == ["repair /dev/vda5", "repair /dev/vda5 without its log"][: 1 + dirty]


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


async def test_limits() -> None:
    disk = make_disk()
    half = WantedVolume(
        label="EPHEMERAL",
        filesystem_label="EPHEMERAL",
        minimum=2 * GIB,
        limit=lambda free: free // 2,
        may_create=True,
    )
    place = await run(disk, half)
    assert place is not None
    assert place.partition.size % MIB == 0
    assert 3 * GIB < place.partition.size < 5 * GIB


async def test_a_disk_without_room_is_named() -> None:
    with pytest.raises(UserError, match=r"EPHEMERAL: 2 GiB are needed, the largest free part of /dev/vda"):
        await run(make_disk(4 * GIB), EPHEMERAL)


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


async def test_a_whole_disk_is_formatted_once() -> None:
    disk = MemoryBlocks(size=GIB, whole=BLANK)
    place = await settle_disk(disk, DATA, [DISK], LOG, VolumeProgress())
    assert (place.device, place.partition.size, place.content.name) == (DISK, GIB, "xfs")
    await settle_disk(disk, DATA, [DISK], LOG, VolumeProgress())
    assert disk.writes == ["format /dev/vda"]
    with pytest.raises(UserError, match="several disks match: /dev/vda, /dev/vdb"):
        await settle_disk(disk, DATA, [DISK, "/dev/vdb"], LOG, VolumeProgress())
