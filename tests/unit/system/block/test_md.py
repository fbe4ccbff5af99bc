"""What sysfs shows of arrays is read, and mdadm's failures are one line."""

from pathlib import Path

import pytest
from tests.unit.disks.raid.memory_mdadm import MemoryMdadm, make_array
from tests.unit.udevd.fake_sysfs import FakeSysfs

from talos.system.block.md import find_free_device, format_uuid, make_name, read_arrays
from talos.system.errors import UserError

MD = "/devices/virtual/block/md127"


@pytest.fixture
def fake(tmp_path: Path) -> FakeSysfs:
    """A mirror that is being rebuilt on its third member; the second has failed, the fourth is gone."""
    fake = FakeSysfs(tmp_path)
    fake.disk("/devices/pci0000:00/0000:00:05.0/virtio5/block/vda", 0)
    fake.disk(
        MD,
        9,
        md__array_state="active",
        md__level="raid1",
        md__raid_disks="3 (2)",
        md__metadata_version="1.2",
        md__sync_action="recover",
        md__bitmap__location="-16",
        md__uuid="6a3f1d52-9c04-4b7e-8f61-0d2a7c5e9b13",
        **{
            "md__dev-vdb__state": "in_sync,write_mostly",
            "md__dev-vdb__slot": "0",
            "md__dev-vdb__offset": "264192",
            "md__dev-vdc__state": "faulty",
            "md__dev-vdc__slot": "none",
            "md__dev-vdd1__state": "spare",
            "md__dev-vdd1__slot": "1",
            "md__dev-cciss!c0d0__state": "in_sync",
            "md__dev-cciss!c0d0__slot": "2",
        },
    )
    for name in ("vdb", "vdc", "vdd1"):
        target = fake.root / "devices" / name
        target.mkdir()
        (fake.root / MD[1:] / f"md/dev-{name}/block").symlink_to(target)
    return fake


def test_arrays_are_read(fake: FakeSysfs) -> None:
    (array,) = read_arrays(fake.sysfs)
    assert (array.device, array.level, array.metadata, array.slots) == ("/dev/md127", "raid1", "1.2", 3)
    assert array.is_running
    assert array.is_syncing
    assert array.has_bitmap
    members = {member.device: member for member in array.members}
    assert sorted(members) == ["/dev/cciss/c0d0", "/dev/vdb", "/dev/vdc", "/dev/vdd1"]
    assert members["/dev/vdb"].is_in_sync
    assert (members["/dev/vdb"].offset, members["/dev/vdc"].offset) == (129 << 20, 0)
    assert not members["/dev/vdc"].is_working
    assert members["/dev/vdd1"].is_working
    assert not members["/dev/vdd1"].is_spare
    assert not members["/dev/cciss/c0d0"].is_present
    assert array.missing == 2


def test_an_array_may_have_no_bitmap(fake: FakeSysfs) -> None:
    (fake.root / MD[1:] / "md/bitmap/location").write_text("none\n")
    (array,) = read_arrays(fake.sysfs)
    assert not array.has_bitmap


def test_a_stopped_array_does_not_run(fake: FakeSysfs) -> None:
    (fake.root / MD[1:] / "md/array_state").write_text("inactive\n")
    (array,) = read_arrays(fake.sysfs)
    assert not array.is_running


def test_uuids_are_written_as_mdadm_does() -> None:
    assert format_uuid("6a3f1d52-9c04-4b7e-8f61-0d2a7c5e9b13") == "6a3f1d52:9c044b7e:8f610d2a:7c5e9b13"
    assert format_uuid("") == ""


def test_names_have_the_host_as_long_as_there_is_room() -> None:
    assert make_name("data") == "talos:data"
    assert make_name("x" * 25) == f"talos:{'x' * 25}"
    assert make_name("x" * 26) == "x" * 26


def test_there_are_128_arrays_at_most() -> None:
    arrays = [make_array(device=f"/dev/md{number}") for number in range(128)]
    assert find_free_device(arrays[:5]) == "/dev/md5"
    with pytest.raises(UserError, match="there are 128 arrays already"):
        find_free_device(arrays)


async def test_a_failure_is_one_line() -> None:
    text = "--re-add for /dev/vdc to /dev/md0 is not possible"
    memory = MemoryMdadm(failing={"--manage": f"{text}\nmdadm: Device is busy"})
    with pytest.raises(UserError) as caught:
        await memory.mdadm.add_again("/dev/md0", "/dev/vdc")
    assert str(caught.value) == f"/dev/md0: mdadm --manage ended with 1: {text}; Device is busy"
