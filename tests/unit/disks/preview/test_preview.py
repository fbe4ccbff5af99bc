"""What a config would make of the disks, by the resources of a machine."""

import trio

from talos.disks.preview.copies import FoundDevices
from talos.disks.preview.layout import Part
from talos.disks.preview.preview import DiskPreview, preview_disks
from talos.system.block.layout import GIB, MIB

from .machine import ROOM, SIZE, add_partition, make_config, make_document, make_found

ON_B = "{diskSelector: {match: 'disk.dev_path == \"/dev/vdb\"'}"
OTHERS = "{volumeSelector: {match: '!disk.readonly && disk.dev_path != \"\"'}"
DB = make_document("UserVolumeConfig", "db", f"{ON_B}, minSize: 1GiB, maxSize: 4GiB}}")


def run(found: FoundDevices, before: tuple[str, ...], after: tuple[str, ...]) -> DiskPreview:
    return trio.run(preview_disks, found, make_config(*before), make_config(*after))


def test_a_new_volume_is_drawn_on_its_disk_only() -> None:
    result = run(make_found(), (), (DB,))
    (change,) = result.changes
    assert (change.before.device, change.before.parts, change.before.free) == ("/dev/vdb", (), ROOM)
    size = 4 * GIB
    part = Part(number=1, label="u-db", content="xfs", start=MIB, size=size, volume="UserVolumeConfig db")
    assert change.after.parts == (part,)
    assert change.after.free == ROOM - size
    assert not result.problems


def test_volumes_are_made_one_behind_the_other() -> None:
    raw = make_document("RawVolumeConfig", "ceph", f"{ON_B}, minSize: 1GiB, maxSize: 2GiB}}")
    swap = make_document("SwapVolumeConfig", "swap", f"{ON_B}, minSize: 1GiB, maxSize: 1GiB}}")
    (change,) = run(make_found(), (), (DB, swap, raw)).changes
    found = [(part.label, part.content, part.size) for part in change.after.parts]
    assert found == [("r-ceph", "", 2 * GIB), ("s-swap", "swap", GIB), ("u-db", "xfs", 4 * GIB)]
    assert change.after.free == ROOM - 7 * GIB


def test_a_volume_without_a_limit_leaves_no_room_for_others() -> None:
    swap = make_document("SwapVolumeConfig", "swap", f"{ON_B}, minSize: 1GiB}}")
    result = run(make_found(), (), (DB, swap))
    assert [part.label for part in result.changes[0].after.parts] == ["s-swap"]
    assert "u-db: 1 GiB are needed, the largest free part of /dev/vdb has 0 B" in result.problems[0]


def test_a_volume_grows() -> None:
    found = add_partition(make_found(), "vdb", "u-db", 4 * GIB)
    larger = make_document("UserVolumeConfig", "db", f"{ON_B}, minSize: 1GiB, maxSize: 6GiB, grow: true}}")
    (change,) = run(found, (DB,), (larger,)).changes
    assert [part.size for part in change.before.parts] == [4 * GIB]
    assert [part.size for part in change.after.parts] == [6 * GIB]


def test_the_system_disk_has_ephemeral_grown() -> None:
    limit = make_document("VolumeConfig", "EPHEMERAL", "{maxSize: 3GiB}")
    (change,) = run(make_found(), (), (limit,)).changes
    assert change.before.device == "/dev/vda"
    assert (change.before.parts[-1].size, change.after.parts[-1].size) == (2 * GIB, 3 * GIB)


def test_a_removed_volume_stays_on_its_disk() -> None:
    found = add_partition(make_found(), "vdb", "u-db", 4 * GIB)
    (change,) = run(found, (DB,), ()).changes
    assert [part.volume for part in change.before.parts] == ["UserVolumeConfig db"]
    assert [(part.label, part.size, part.volume) for part in change.after.parts] == [("u-db", 4 * GIB, "")]


def test_a_disk_that_is_a_volume() -> None:
    text = f"{make_document('UserVolumeConfig', 'db', f'{ON_B}}}')}volumeType: disk\n"
    (change,) = run(make_found(), (), (text,)).changes
    assert change.after.parts == (Part(content="xfs", size=SIZE, volume="UserVolumeConfig db"),)
    result = run(make_found({"vdb": "ext4"}), (), (text,))
    assert result.changes == []
    assert "/dev/vdb holds ext4: it is not written over" in result.problems[0]


def test_encryption_is_what_a_partition_holds() -> None:
    text = f"{DB}encryption: {{provider: luks2, keys: [{{slot: 0, nodeID: {{}}}}]}}\n"
    (change,) = run(make_found(), (), (text,)).changes
    assert [part.content for part in change.after.parts] == ["crypto_LUKS"]


def test_what_is_not_made_has_its_reason() -> None:
    wide = make_document("UserVolumeConfig", "wide", f"{ON_B}, minSize: 1TiB}}")
    lost = make_document("UserVolumeConfig", "lost", "{diskSelector: {match: 'disk.transport == \"nvme\"'}}")
    result = run(make_found({"vdb": "gpt"}), (), (wide, lost))
    assert result.changes == []
    lines = "\n".join(result.problems)
    assert "u-wide: 1 TiB are needed, the largest free part of /dev/vdb has" in lines
    assert "UserVolumeConfig lost provisioning.diskSelector.match: no disk matches" in lines
    assert not run(make_found({"vdb": "gpt"}), (wide, lost), (lost,)).problems


def test_an_array_is_made_of_blank_disks() -> None:
    text = f"{make_document('RAIDArrayConfig', 'data', f'{OTHERS}}}')}level: raid1\n"
    changes = {change.after.device: change for change in run(make_found(), (), (text,)).changes}
    assert set(changes) == {"/dev/vdb", "/dev/vdc", "RAIDArrayConfig data"}
    for disk in ("/dev/vdb", "/dev/vdc"):
        (part,) = changes[disk].after.parts
        assert (part.content, part.volume) == ("linux_raid_member", "RAIDArrayConfig data")
    array = changes["RAIDArrayConfig data"]
    assert (array.before.size, array.after.size) == (0, SIZE)
    one = run(make_found({"vdc": "xfs"}), (), (text,))
    assert "RAIDArrayConfig data: waiting for enough member disks: matched 1, required 2" in one.problems


def test_a_volume_group_with_its_logical_volumes() -> None:
    group = make_document("LVMVolumeGroupConfig", "pool", f"{OTHERS}}}")
    half = make_document("LVMLogicalVolumeConfig", "half", "{volumeGroup: pool, maxSize: 50%}")
    fixed = make_document("LVMLogicalVolumeConfig", "fixed", "{volumeGroup: pool, maxSize: 1GiB}")
    changes = {
        change.after.device: change.after for change in run(make_found(), (), (group, half, fixed)).changes
    }
    pool = changes["LVMVolumeGroupConfig pool"]
    assert pool.size == 2 * SIZE
    assert {(part.label, part.size) for part in pool.parts} == {("half", SIZE), ("fixed", GIB)}
    assert changes["/dev/vdb"].parts[0].content == "LVM2_member"


def test_a_machine_without_an_installation_has_no_disks_to_draw() -> None:
    assert run(FoundDevices(), (), (DB,)) == DiskPreview()
