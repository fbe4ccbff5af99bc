"""Groups and volumes come to be, grow, and never more than that; what fails holds nothing else back."""

import pytest

from talos.disks.lvm.provide import LvmProvider, ProvisionResult
from talos.disks.lvm.specs import LvmSpecs, WantedGroup
from talos.system.block.lvm import LogicalVolume
from talos.system.logging import Log

from .memory_lvm import EXTENT, Logical, MemoryLvm

POOL = WantedGroup(name="pool", devices=("/dev/vdb", "/dev/vdc"))
MIRROR = LogicalVolume(group="pool", name="data", type="raid1", mirrors=1, size=(100 << 20) - 1)


def make_lvm() -> MemoryLvm:
    return MemoryLvm(physical={"/dev/vdb": "pool", "/dev/vdc": "pool"})


async def provide(
    memory: MemoryLvm, *wanted: WantedGroup | LogicalVolume, heads: dict[str, bytes] | None = None
) -> ProvisionResult:
    async def read_head(device: str) -> bytes:
        return (heads or {}).get(device, bytes(4096))

    specs = LvmSpecs(
        groups=tuple(one for one in wanted if isinstance(one, WantedGroup)),
        logical=tuple(one for one in wanted if isinstance(one, LogicalVolume)),
    )
    provider = LvmProvider(memory.lvm, read_head, Log(write=lambda _: None))
    return await provider.provide(specs, await memory.lvm.report())


async def test_a_group_and_a_mirror_are_made_once() -> None:
    memory = MemoryLvm()
    first = await provide(memory, POOL, MIRROR)
    assert first == ProvisionResult(problems=[], changed=True)
    assert memory.changes == [
        "pvcreate /dev/vdb",
        "pvcreate /dev/vdc",
        "vgcreate --yes pool /dev/vdb /dev/vdc",
        f"lvcreate --yes -n data --type raid1 --mirrors 1 -L {100 << 20}b pool",
    ]
    assert memory.blank == ["/dev/pool/data"], "what a removed volume held could reappear"
    memory.calls.clear()
    assert await provide(memory, POOL, MIRROR) == ProvisionResult(problems=[])
    assert memory.changes == []


async def test_after_a_power_cut_the_rest_is_made() -> None:
    memory = MemoryLvm(physical={"/dev/vdb": ""})
    await provide(memory, POOL)
    assert memory.changes == ["pvcreate /dev/vdc", "vgcreate --yes pool /dev/vdb /dev/vdc"]


async def test_a_new_disk_extends_its_group_and_what_has_a_share_of_it() -> None:
    half = LogicalVolume(group="pool", name="half", percent=50)
    memory = MemoryLvm(
        physical={"/dev/vdb": "pool"}, logical=[Logical(group="pool", name="half", size=63 * EXTENT)]
    )
    await provide(memory, POOL, half)
    assert memory.changes[-2:] == [
        "vgextend --yes pool /dev/vdc",
        f"lvextend --yes -L {127 * EXTENT}b pool/half",
    ]


async def test_all_of_a_group_is_not_grown_for_ever() -> None:
    whole = LogicalVolume(group="pool", name="data", type="raid1", mirrors=1, percent=100)
    volume = Logical(group="pool", name="data", layout="raid,raid1", size=126 * EXTENT, copies=2)
    memory = make_lvm()
    memory.logical.append(volume)
    assert await provide(memory, whole) == ProvisionResult(problems=[])


@pytest.mark.parametrize(
    ("wanted", "size", "copies"),
    [
        (LogicalVolume(group="pool", name="a", percent=50), 127, 1),
        (LogicalVolume(group="pool", name="a", type="raid0", stripes=4, percent=50), 128, 1),
        (LogicalVolume(group="pool", name="a", type="raid1", mirrors=1, percent=10), 12, 2),
    ],
)
async def test_a_share_as_lvm_rounds_it_is_none_that_has_shrunk(
    wanted: LogicalVolume, size: int, copies: int
) -> None:
    memory = make_lvm()
    layout = wanted.type if wanted.type == "linear" else f"raid,{wanted.type}"
    memory.logical.append(Logical(group="pool", name="a", layout=layout, size=size * EXTENT, copies=copies))
    assert await provide(memory, wanted) == ProvisionResult(problems=[])


async def test_a_striped_volume_grows_by_whole_stripes() -> None:
    memory = MemoryLvm(physical={f"/dev/vd{letter}": "pool" for letter in "bcd"})
    memory.logical.append(Logical(group="pool", name="a", layout="raid,raid0", size=150 * EXTENT))
    await provide(memory, LogicalVolume(group="pool", name="a", type="raid0", stripes=2, percent=50))
    assert memory.changes == [f"lvextend --yes -L {190 * EXTENT}b pool/a"]
    memory.calls.clear()
    await provide(memory, LogicalVolume(group="pool", name="a", type="raid0", stripes=4, percent=50))
    assert memory.changes == []


@pytest.mark.parametrize(
    ("kind", "stripes", "mirrors", "argv"),
    [
        ("raid0", 0, 0, "--type raid0 --stripes 4"),
        ("raid0", 2, 0, "--type raid0 --stripes 2"),
        ("raid10", 0, 1, "--type raid10 --mirrors 1 --stripes 2"),
    ],
)
async def test_stripes_are_as_many_as_there_are_disks(
    kind: str, stripes: int, mirrors: int, argv: str
) -> None:
    memory = MemoryLvm(physical={f"/dev/vd{letter}": "pool" for letter in "bcde"})
    volume = LogicalVolume(group="pool", name="a", type=kind, stripes=stripes, mirrors=mirrors, percent=50)
    await provide(memory, volume)
    assert memory.changes == [f"lvcreate --yes -n a {argv} -l 50%VG pool"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (LogicalVolume(group="other", name="a", size=1), 'there is no volume group "other"'),
        (LogicalVolume(group="pool", name="a"), "its size is 0"),
        (
            LogicalVolume(group="pool", name="a", type="raid10", mirrors=1, size=1),
            "too few physical volumes for the requested layout: raid10 needs 4, it has 2",
        ),
        (
            LogicalVolume(group="pool", name="a", type="raid1", mirrors=4294967295, size=1),
            "raid1 needs 4294967296, it has 2",
        ),
        (
            LogicalVolume(group="pool", name="old", size=10 * EXTENT),
            f"requested size {10 * EXTENT} bytes is smaller than current size {20 * EXTENT} bytes; shrinking",
        ),
        (
            LogicalVolume(group="pool", name="old", percent=7),
            f"requested size {17 * EXTENT} bytes is smaller than current size {20 * EXTENT} bytes; shrinking",
        ),
        (
            LogicalVolume(group="pool", name="old", type="raid1", mirrors=1, size=20 * EXTENT),
            "it is linear, not raid1: the layout of a logical volume does not change",
        ),
    ],
)
async def test_what_cannot_be_is_named_and_holds_nothing_back(wanted: LogicalVolume, words: str) -> None:
    memory = make_lvm()
    memory.logical.append(Logical(group="pool", name="old", size=20 * EXTENT))
    found = await provide(memory, wanted, MIRROR)
    (problem,) = found.problems
    assert problem.id == f"{wanted.group}/{wanted.name}"
    assert words in problem.message
    assert not problem.message.startswith(problem.id), "the id is shown before it"
    assert not found.failed, "it would be tried for ever"
    assert [change.split()[3] for change in memory.changes] == ["data"]


async def test_devices_that_are_not_blank_are_named() -> None:
    memory = MemoryLvm(physical={"/dev/vdc": "theirs"})
    wanted = WantedGroup(name="pool", devices=("/dev/vdb", "/dev/vdc", "/dev/vdd"))
    found = await provide(memory, wanted, heads={"/dev/vdb": b"\0something"})
    messages = [problem.message for problem in found.problems]
    assert messages[0] == (
        '/dev/vdc is in volume group "theirs" already (if that may be lost: talosctl wipe vg theirs)'
    )
    assert "/dev/vdb holds unrecognised data: it is not written over" in messages[1]
    assert memory.changes == ["pvcreate /dev/vdd", "vgcreate --yes pool /dev/vdd"]


async def test_a_program_that_fails_is_tried_again_later() -> None:
    memory = MemoryLvm(failing={"pvcreate": "Can't open /dev/vdb exclusively.  Mounted filesystem?"})
    found = await provide(memory, POOL)
    assert found.failed
    assert "/dev/vdb: lvm pvcreate ended with 5: Can't open /dev/vdb exclusively" in found.problems[0].message
    memory = make_lvm()
    memory.failing["lvcreate"] = "Volume group has insufficient free space"
    found = await provide(memory, MIRROR)
    assert found.failed
    (problem,) = found.problems
    assert problem.message == "lvm lvcreate ended with 5: Volume group has insufficient free space"


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (MemoryLvm(physical={"/dev/vdb": "pool"}, missing={"pool": 1}), "lacks 1 of its physical volumes"),
        (MemoryLvm(physical={"/dev/vdb": "pool"}, twice={"pool"}), "2 volume groups have the name"),
    ],
)
async def test_a_group_in_disorder_is_not_changed(memory: MemoryLvm, words: str) -> None:
    found = await provide(memory, POOL)
    (problem,) = found.problems
    assert words in problem.message
    assert not problem.message.startswith("pool: ")
    assert memory.changes == []
