"""Reset: what a request means, and what is erased, on files in place of disks."""

from pathlib import Path
from typing import Any

import pytest

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.machine.machine_pb2 import ResetPartitionSpec, ResetRequest
from talos.disks.disk import Content, Disk, read_disks
from talos.disks.reset import (
    Erasure,
    ResetPlan,
    erase,
    erase_user_disks,
    parse_wipe_argument,
    plan_reset,
    plan_wipe,
)
from talos.resource.kinds import DISCOVERED_VOLUME, DISK, SYSTEM_DISK, VOLUME_STATUS
from talos.resource.memory.state import MemoryState
from talos.resource.resource import make_resource
from talos.system.errors import UserError
from talos.system.logging import Log

MIB = 1 << 20


REMEDY = "talosctl wipe disk erases one, or detach another machine's disk"
LABELS = ("EFI", "META", "STATE", "EPHEMERAL")


async def make_state(folder: Path = Path("/dev")) -> MemoryState:
    state = MemoryState()
    for name in ("vda", "vdb", "sr0"):
        spec = block_pb2.DiskSpec(size=40 * MIB, dev_path=str(folder / name), cdrom=name == "sr0")
        if name == "vdb":
            spec.symlinks.append("/dev/disk/by-id/data")
        await state.create(make_resource(DISK, name, spec))
    for number, label in enumerate(LABELS, 1):
        volume = block_pb2.DiscoveredVolumeSpec(
            parent="vda", partition_label=label, offset=number * 8 * MIB, size=4 * MIB, name="xfs"
        )
        await state.create(make_resource(DISCOVERED_VOLUME, f"vda{number}", volume))
    await state.create(make_resource(SYSTEM_DISK, "system-disk", block_pb2.SystemDiskSpec(disk_id="vda")))
    return state


def describe(plan: ResetPlan) -> tuple[str, ...]:
    """What is lost, one line each."""
    return (*(line for erasure in plan.erasures for line in erasure.describe()), *plan.user_disks)


def wipe(*labels: str) -> list[ResetPartitionSpec]:
    return [ResetPartitionSpec(label=label, wipe=True) for label in labels]


@pytest.mark.parametrize(
    ("request_", "lines"),
    [
        (ResetRequest(), ("the system disk /dev/vda: 40 MiB",)),
        (ResetRequest(mode="SYSTEM_DISK"), ("the system disk /dev/vda: 40 MiB",)),
        (
            ResetRequest(system_partitions_to_wipe=wipe("STATE", "EPHEMERAL")),
            ("vda3 (STATE)", "vda4 (EPHEMERAL)"),
        ),
        (
            ResetRequest(user_disks_to_wipe=["/dev/vdb"]),
            ("the system disk /dev/vda: 40 MiB", "/dev/vdb"),
        ),
        (ResetRequest(mode="USER_DISKS", user_disks_to_wipe=["/dev/disk/by-id/data"]), ("/dev/vdb",)),
        (
            ResetRequest(system_partitions_to_wipe=[ResetPartitionSpec(label="STATE")]),
            ("the system disk /dev/vda: 40 MiB",),
        ),
    ],
)
async def test_what_a_request_means(request_: Any, lines: tuple[str, ...]) -> None:
    assert describe(await plan_reset(await make_state(), request_)) == lines


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            ResetRequest(mode="USER_DISKS", system_partitions_to_wipe=wipe("STATE")),
            "wipe mode USER_DISKS doesn't support SystemPartitionsToWipe parameter",
        ),
        (
            ResetRequest(mode="SYSTEM_DISK", user_disks_to_wipe=["/dev/vdb"]),
            "wipe mode SYSTEM_DISK doesn't support UserDisksToWipe parameter",
        ),
        (ResetRequest(mode="USER_DISKS"), "user_disks_to_wipe: no disk is named"),
        (ResetRequest(user_disks_to_wipe=["/dev/vda"]), "/dev/vda is the system disk"),
        (ResetRequest(user_disks_to_wipe=["/dev/sr0"]), "/dev/sr0 can't be written"),
        (ResetRequest(user_disks_to_wipe=["/dev/vdz"]), "there is no disk /dev/vdz .*: /dev/sr0, /dev/vdb"),
        (
            ResetRequest(system_partitions_to_wipe=wipe("SATE")),
            r"no partition SATE \(there are: EFI, META, STATE, EPHEMERAL\)",
        ),
    ],
)
async def test_what_can_not_be_meant(request_: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        await plan_reset(await make_state(), request_)


async def add_volume(state: MemoryState, name: str, location: str) -> None:
    kind = enums.VOLUME_TYPE_PARTITION if location else enums.VOLUME_TYPE_DIRECTORY
    await state.create(
        make_resource(VOLUME_STATUS, name, block_pb2.VolumeStatusSpec(type=kind, location=location))
    )


async def test_a_volume_of_the_system_on_another_disk() -> None:
    state = await make_state()
    await add_volume(state, "ETCD", "/dev/vdb1")
    await add_volume(state, "EPHEMERAL", "/dev/vda4")
    volume = block_pb2.DiscoveredVolumeSpec(parent="vdb", partition_label="ETCD", name="xfs")
    await state.create(make_resource(DISCOVERED_VOLUME, "vdb1", volume))
    request = ResetRequest(system_partitions_to_wipe=wipe("ETCD"))
    assert describe(await plan_reset(state, request)) == ("vdb1 (ETCD)",)
    request = ResetRequest(system_partitions_to_wipe=wipe("ETCD", "STATE"))
    assert describe(await plan_reset(state, request)) == ("vda3 (STATE)", "vdb1 (ETCD)")
    assert describe(await plan_reset(state, ResetRequest())) == (
        "the system disk /dev/vda: 40 MiB",
        "a disk with a volume of the system, /dev/vdb: 40 MiB",
    )


async def test_a_folder_is_erased_with_the_volume_that_it_is_in() -> None:
    state = await make_state()
    await add_volume(state, "LOG", "")
    with pytest.raises(UserError) as caught:
        await plan_reset(state, ResetRequest(system_partitions_to_wipe=wipe("LOG")))
    assert caught.value.message == (
        'failed to reset: volume "LOG" resides on volume "EPHEMERAL", and therefore "LOG" cannot be wiped '
        'without wiping "EPHEMERAL"'
    )
    request = ResetRequest(system_partitions_to_wipe=wipe("LOG", "EPHEMERAL"))
    assert describe(await plan_reset(state, request)) == ("vda4 (EPHEMERAL)",)


async def test_a_machine_without_a_system_disk() -> None:
    state = MemoryState()
    assert describe(await plan_reset(state, ResetRequest())) == ()
    with pytest.raises(UserError, match="none, the system is not installed"):
        await plan_reset(state, ResetRequest(system_partitions_to_wipe=wipe("STATE")))


@pytest.mark.parametrize(
    ("labels", "lines", "problems"),
    [
        (["STATE"], ["vda3 (STATE)"], []),
        (["ETCD", "STATE"], ["vda3 (STATE)", "vdb1 (ETCD)"], []),
        (["META"], ["vda2 (META)"], []),
        (["EPHEMERAL"], ["vda4 (EPHEMERAL)"], []),
        (["CRI"], [], ["there is no partition CRI to erase"]),
        (
            ["LOG", "ETCD"],
            ["vdb1 (ETCD)"],
            [
                f"several disks have a LOG, of which none is erased: vdb2, vdc2; {REMEDY}",
            ],
        ),
        ([], ["the system disk /dev/vda: 40 MiB"], []),
    ],
)
async def test_the_argument_finds_partitions_of_the_system_on_other_disks(
    labels: list[str], lines: list[str], problems: list[str]
) -> None:
    """EPHEMERAL and META are on the second disk, too, which was another machine's."""
    state = await make_state()
    await state.create(make_resource(DISK, "vdc", block_pb2.DiskSpec(size=40 * MIB, dev_path="/dev/vdc")))
    parts = {"vdb1": "ETCD", "vdb2": "LOG", "vdb3": "EPHEMERAL", "vdb4": "META", "vdc2": "LOG"}
    for name, label in parts.items():
        volume = block_pb2.DiscoveredVolumeSpec(parent=name[:3], partition_label=label, name="xfs")
        await state.create(make_resource(DISCOVERED_VOLUME, name, volume))
    erasures, found = plan_wipe(await read_disks(state), labels)
    assert [line for erasure in erasures for line in erasure.describe()] == lines
    assert list(found) == problems


async def test_all_partitions_of_a_label_on_the_disk_of_the_system_are_erased() -> None:
    state = await make_state()
    volume = block_pb2.DiscoveredVolumeSpec(parent="vda", partition_label="STATE", offset=36 * MIB)
    await state.create(make_resource(DISCOVERED_VOLUME, "vda5", volume))
    (erasure,), problems = plan_wipe(await read_disks(state), ["STATE"])
    assert erasure.describe() == ("vda3 (STATE)", "vda5 (STATE)")
    assert not problems
    plan = await plan_reset(state, ResetRequest(system_partitions_to_wipe=wipe("STATE", "META")))
    assert describe(plan) == ("vda3 (STATE)", "vda5 (STATE)", "vda2 (META)")


async def test_the_argument_finds_the_disk_of_the_system_by_its_mark() -> None:
    state = await make_state()
    await state.destroy(SYSTEM_DISK, "system-disk")
    volume = block_pb2.DiscoveredVolumeSpec(parent="vdb", partition_label="META", name="talosmeta")
    await state.create(make_resource(DISCOVERED_VOLUME, "vdb1", volume))
    (erasure,), problems = plan_wipe(await read_disks(state), [])
    assert erasure.describe() == ("the system disk /dev/vdb: 40 MiB",)
    assert not problems


def test_the_argument_leaves_the_members_of_an_array(tmp_path: Path) -> None:
    etcd = Content(name="x1", label="ETCD", filesystem="", offset=0, size=MIB)
    spec = block_pb2.DiskSpec(dev_path=str(tmp_path))
    array, member = (
        Disk(id=name, spec=spec, contents=(etcd,), array=array)
        for name, array in (("md1", ""), ("vdb", "/dev/md1"))
    )
    erasures, problems = plan_wipe([array, member], ["ETCD"])
    assert [erasure.disk.id for erasure in erasures] == ["md1"]
    assert not problems
    assert plan_wipe([], []) == ([], ["there is no system disk to erase"])


DROP = Log(write=lambda _: None)


@pytest.fixture(autouse=True)
def removed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Firmware from which entries are removed, so that it is not this machine's."""
    calls: list[object] = []
    monkeypatch.setattr("talos.upgrade.slots.loader_trial.remove_entries", calls.append)
    return calls


def make_file(path: Path, size: int = 40 * MIB) -> Path:
    path.write_bytes(b"\xaa" * size)
    return path


def make_disk(path: Path) -> Disk:
    contents = tuple(
        Content(name=f"vda{n}", label=label, filesystem="", offset=n * 8 * MIB, size=4 * MIB)
        for n, label in enumerate(LABELS, 1)
    )
    return Disk(id="vda", spec=block_pb2.DiskSpec(dev_path=str(path)), contents=contents)


def is_zero(path: Path, offset: int, size: int = MIB) -> bool:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size) == bytes(size)


def test_the_whole_disk_loses_its_edges_and_those_of_its_partitions(tmp_path: Path) -> None:
    path = make_file(tmp_path / "vda")
    erase([Erasure(disk=make_disk(path))], DROP)
    assert is_zero(path, 0)
    assert is_zero(path, 39 * MIB)
    for number in range(1, 5):
        assert is_zero(path, number * 8 * MIB)
        assert is_zero(path, number * 8 * MIB + 3 * MIB)
    assert not is_zero(path, 4 * MIB)


def test_one_partition_loses_its_own_only(tmp_path: Path) -> None:
    path = make_file(tmp_path / "vda")
    disk = make_disk(path)
    erase([Erasure(disk=disk, parts=disk.contents[2:3])], DROP)
    assert is_zero(path, 24 * MIB)
    assert is_zero(path, 27 * MIB)
    assert not is_zero(path, 0, 1)
    assert not is_zero(path, 16 * MIB, 1)
    assert not is_zero(path, 32 * MIB, 1)


def test_all_user_disks_are_tried(tmp_path: Path) -> None:
    path = make_file(tmp_path / "vdb")
    lines: list[str] = []
    with pytest.raises(OSError, match="No such file"):
        erase_user_disks([str(tmp_path / "gone"), str(path)], lines.append)
    assert lines == [f"{tmp_path}/gone is not erased: No such file or directory", f"{path} is erased"]
    assert is_zero(path, 0)


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ("system", ()),
        ("system:EPHEMERAL", ("EPHEMERAL",)),
        ("system:EPHEMERAL,STATE", ("EPHEMERAL", "STATE")),
    ],
)
def test_the_kernel_argument(value: str, labels: tuple[str, ...]) -> None:
    assert parse_wipe_argument(value) == labels


@pytest.mark.parametrize("value", ["", "all", "system:", "disk:STATE"])
def test_a_kernel_argument_that_is_not_known(value: str) -> None:
    with pytest.raises(UserError, match=r"talos\.experimental\.wipe: .* is not known"):
        parse_wipe_argument(value)


@pytest.mark.parametrize(
    ("labels", "is_removed"), [((), True), (("EFI",), True), (("STATE", "EPHEMERAL"), False)]
)
def test_the_entry_of_a_boot_loader_on_trial_goes_with_its_disk(
    tmp_path: Path, removed: list[object], labels: tuple[str, ...], is_removed: bool
) -> None:
    disk = make_disk(make_file(tmp_path / "disk"))
    parts = tuple(part for part in disk.contents if part.label in labels)
    erase([Erasure(disk=disk, parts=parts)], DROP)
    assert bool(removed) == is_removed


def test_firmware_that_keeps_the_entry_does_not_end_a_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("talos.upgrade.slots.loader_trial.remove_entries", refuse)
    path, lines = make_file(tmp_path / "disk"), list[str]()
    erase([Erasure(disk=make_disk(path))], Log(write=lines.append))
    assert "the firmware keeps a boot entry of an upgrade" in lines[-1]
    assert "Read-only file system" in lines[-1]
    assert is_zero(path, 0)


def test_the_disk_of_the_system_is_erased_last(tmp_path: Path) -> None:
    disks = [make_disk(make_file(tmp_path / name)) for name in ("vda", "vdb")]
    lines: list[str] = []
    erase([Erasure(disk=disk) for disk in disks], Log(write=lines.append).bind(reason="a reset"))
    assert ["vdb" in line for line in lines] == [True, False]
    assert all("a reset" in line for line in lines)
    assert all(is_zero(tmp_path / name, 0) for name in ("vda", "vdb"))


async def test_half_of_the_system_disk_is_no_users_disk() -> None:
    state = MemoryState()
    for name, members in (("md0", ("vda", "vdb")), ("vda", ()), ("vdb", ())):
        spec = block_pb2.DiskSpec(size=40 * MIB, dev_path=f"/dev/{name}", secondary_disks=members)
        await state.create(make_resource(DISK, name, spec))
    await state.create(make_resource(SYSTEM_DISK, "system-disk", block_pb2.SystemDiskSpec(disk_id="md0")))
    assert describe(await plan_reset(state, ResetRequest())) == ("the system disk /dev/md0: 40 MiB",)
    with pytest.raises(UserError, match="/dev/vdb is a member of /dev/md0, the system disk"):
        await plan_reset(state, ResetRequest(mode="USER_DISKS", user_disks_to_wipe=["/dev/vdb"]))


@pytest.mark.parametrize(("member", "device"), [("vdb", "/dev/vdb"), ("vdb1", "/dev/disk/by-id/data")])
async def test_a_disk_in_an_array_is_refused_with_the_way_to_erase_it(member: str, device: str) -> None:
    state = await make_state()
    array = block_pb2.DiskSpec(size=40 * MIB, dev_path="/dev/md0", secondary_disks=[member, "vdc"])
    await state.create(make_resource(DISK, "md0", array))
    if member != "vdb":
        volume = block_pb2.DiscoveredVolumeSpec(parent="vdb", name="linux_raid_member")
        await state.create(make_resource(DISCOVERED_VOLUME, member, volume))
    text = f"{device} is in use by the RAID array /dev/md0 .*first: talosctl wipe md /dev/md0"
    for mode in ("ALL", "USER_DISKS"):
        with pytest.raises(UserError, match=text):
            await plan_reset(state, ResetRequest(mode=mode, user_disks_to_wipe=[device]))
    request = ResetRequest(mode="USER_DISKS", user_disks_to_wipe=["/dev/md0"])
    assert describe(await plan_reset(state, request)) == ("/dev/md0",)
