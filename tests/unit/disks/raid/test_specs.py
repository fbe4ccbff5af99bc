"""Which devices an array takes, and what is refused with which words."""

import pytest
from tests.unit.disks.lvm.memory_lvm import make_config, make_disk, make_machine

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.disks.raid.specs import find_members, make_spec, make_specs
from talos.resource import kinds
from talos.resource.resource import make_resource
from talos.system.block.md import MEMBER

from .memory_mdadm import MemoryMdadm, make_document


def test_an_array_takes_blank_devices_and_members() -> None:
    found = make_machine(
        make_disk("vdb"),
        make_disk("vdc", MEMBER),
        make_disk("vdd", readonly=True),
        make_disk("md0"),
        make_disk("loop0"),
    )
    (array,) = make_specs(make_config(make_document(match="true", metadata="1.2")), *found)
    assert array.problems == ()
    assert array.devices == ("/dev/vda5", "/dev/vdb", "/dev/vdc")
    assert make_spec(array).metadata == enums.MD_METADATA12


def test_what_holds_something_is_named_and_left_alone() -> None:
    found = make_machine(make_disk("vdb", "xfs"), make_disk("vdc", "LVM2_member"), make_disk("vdd"))
    (array,) = make_specs(make_config(make_document()), *found)
    assert array.devices == ("/dev/vdd",)
    assert array.problems == (
        "/dev/vdb holds xfs: it is not written over (if it may be lost: talosctl wipe disk vdb)",
        "/dev/vdc holds LVM2_member: it is not written over (if it may be lost: talosctl wipe disk vdc)",
    )


def test_a_device_goes_to_the_first_array() -> None:
    config = make_config(make_document("one"), make_document("two"))
    one, two = make_specs(config, *make_machine(make_disk("vdb")))
    assert (one.devices, two.devices) == (("/dev/vdb",), ())
    assert two.problems == ('device "/dev/vdb" already claimed by RAID array "one"',)


def test_a_wrong_selector_is_a_problem() -> None:
    (array,) = make_specs(
        make_config(make_document(match="volume.size / 0u > 1u")), *make_machine(make_disk("vdb"))
    )
    assert "RAIDArrayConfig data provisioning.volumeSelector.match" in array.problems[0]


def test_no_config_wants_nothing() -> None:
    assert make_specs(None, [], {}) == ()


@pytest.mark.parametrize("match", ["true", 'volume.partition_label == ""'])
def test_what_seems_to_be_on_a_member_is_no_device(match: str) -> None:
    """The kernel shows the array's partitions on each half, until it is started."""
    volumes, disks = make_machine(make_disk("vdb", MEMBER))
    part = DiscoveredVolumeSpec(dev_path="/dev/vdb1", parent="vdb", parent_dev_path="/dev/vdb")
    volumes.append(make_resource(kinds.DISCOVERED_VOLUME, "vdb1", part))
    (array,) = make_specs(make_config(make_document(match=match)), volumes, disks)
    assert "/dev/vdb" in array.devices
    assert "/dev/vdb1" not in array.devices


def test_members_are_found_by_what_is_on_them() -> None:
    memory = MemoryMdadm(contents={"/dev/vdc": MEMBER, "/dev/vdb": "xfs"})
    (member,) = find_members(memory.discover("vdb", "vdc"))
    assert (member.device, member.name) == ("/dev/vdc", "talos:data")
